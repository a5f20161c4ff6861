package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/result"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/result/resulttest"
	"github.com/hybrid-pleg/hybrid-pleg/internal/testutil"
)

// looked is what the script in the page found, at one width.
type looked struct {
	Width, ScrollWidth int
	Drawings           int
	// Smallest is the size of the smallest text in a drawing, in pixels.
	Smallest float64
	// CutOff are texts that stick out of their drawing.
	CutOff []string
	// Overlapping are pairs of texts of a drawing that cover each other.
	Overlapping []string
	Errors      []string
}

// probe is added to the page. It measures what a reader would see, and tells the
// frame.
const probe = `<script>
const errors = [];
addEventListener('error', e => errors.push(String(e.message || e.target.src || e.target.href)), true);
addEventListener('load', () => {
  let drawings = 0, smallest = 1e9;
  const cutOff = [], overlapping = [];
  for (const svg of document.querySelectorAll('figure svg[role=img]')) {
    const box = svg.getBoundingClientRect();
    if (box.width === 0) continue;
    drawings++;
    const boxes = [];
    for (const text of svg.querySelectorAll('text')) {
      const t = text.getBoundingClientRect();
      smallest = Math.min(smallest, parseFloat(getComputedStyle(text).fontSize) * box.width / svg.viewBox.baseVal.width);
      if (t.left < box.left - 1 || t.right > box.right + 1 || t.top < box.top - 2 || t.bottom > box.bottom + 2)
        cutOff.push(svg.getAttribute('aria-label').slice(0, 60) + ': ' + text.textContent);
      for (const [other, o] of boxes) {
        const w = Math.min(t.right, o.right) - Math.max(t.left, o.left), h = Math.min(t.bottom, o.bottom) - Math.max(t.top, o.top);
        if (w > 1 && h > 5) overlapping.push(svg.getAttribute('aria-label').slice(0, 60) + ': ' + other + ' / ' + text.textContent);
      }
      boxes.push([text.textContent, t]);
    }
  }
  parent.postMessage({Width: innerWidth, ScrollWidth: document.documentElement.scrollWidth,
    Drawings: drawings, Smallest: smallest, CutOff: cutOff, Overlapping: overlapping, Errors: errors}, '*');
});
</script>`

// look opens the page at the width of a phone and of a desktop.
func look(t *testing.T, page []byte) []looked {
	t.Helper()
	browser, flags := testutil.Browser(t)
	dir := t.TempDir()
	page = bytes.Replace(page, []byte("</head>"), []byte(probe+"</head>"), 1)
	frame := `<!DOCTYPE html><body><pre id="found"></pre><script>
const found = [];
addEventListener('message', e => { found.push(e.data); document.getElementById('found').textContent = JSON.stringify(found); });
</script><iframe src="page.html" style="border:0;width:360px;height:800px"></iframe>
<iframe src="page.html" style="border:0;width:1280px;height:800px"></iframe></body>`
	for name, content := range map[string][]byte{"page.html": page, "frame.html": []byte(frame)} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// What a page says on its console goes to standard error.
	flags = append(flags, "--enable-logging=stderr", "--virtual-time-budget=20000", "--window-size=1700,1700", "--dump-dom", "file://"+filepath.Join(dir, "frame.html"))
	cmd := exec.CommandContext(t.Context(), browser, flags...)
	cmd.WaitDelay = 10 * time.Second
	var stderr strings.Builder
	cmd.Stderr = &stderr
	dom, err := cmd.Output()
	if err != nil {
		t.Fatalf("the browser failed: %v\n%s", err, stderr.String())
	}
	for line := range strings.Lines(stderr.String()) {
		if strings.Contains(line, "CONSOLE") {
			t.Errorf("on the console: %s", line)
		}
	}
	m := regexp.MustCompile(`(?s)<pre id="found">(.*?)</pre>`).FindSubmatch(dom)
	if m == nil {
		t.Fatalf("no result in %.500s", dom)
	}
	var found []looked
	if err := json.Unmarshal([]byte(html.UnescapeString(string(m[1]))), &found); err != nil || len(found) != 2 {
		t.Fatalf("%d results of 2, %v: %.500s", len(found), err, m[1])
	}
	return found
}

func TestInBrowser(t *testing.T) {
	long := resulttest.Many(2, 15)
	for i := range long.Arms {
		long.Arms[i].Name = fmt.Sprintf("an-arm-with-a-very-long-name-without-a-space-%d", i)
	}
	long.Sequential, long.Workloads = true, long.Workloads[:1]
	few := resulttest.Periods(1)
	few.Arms = few.Arms[:2]
	pages := map[string]result.Experiment{
		"many": resulttest.Make(resulttest.Many(1, 15)), "few": resulttest.Make(few), "long names, one after another": resulttest.Make(long),
		"no truth": sparse()["no truth"],
	}
	for name, e := range pages {
		t.Run(name, func(t *testing.T) {
			page, err := Render(summary(t, e))
			if err != nil {
				t.Fatal(err)
			}
			drawings := map[int]int{}
			for _, l := range look(t, page) {
				drawings[l.Width] = l.Drawings
				if l.ScrollWidth > l.Width {
					t.Errorf("at %d px the page is %d px wide", l.Width, l.ScrollWidth)
				}
				if l.Smallest < 10.5 {
					t.Errorf("at %d px text of %.1f px", l.Width, l.Smallest)
				}
				for _, text := range l.CutOff {
					t.Errorf("at %d px cut off: %s", l.Width, text)
				}
				for _, pair := range l.Overlapping {
					t.Errorf("at %d px overlapping: %s", l.Width, pair)
				}
				for _, e := range l.Errors {
					t.Errorf("at %d px: %s", l.Width, e)
				}
			}
			// Of the two forms of each chart one is shown, at either width.
			if drawings[360] == 0 || drawings[360] != drawings[1280] {
				t.Errorf("drawings shown by width: %v", drawings)
			}
		})
	}
}
