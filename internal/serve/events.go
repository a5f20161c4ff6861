package serve

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
)

const (
	typeNDJSON = "application/x-ndjson"
	typeSSE    = "text/event-stream"
)

// beatEvery is how often a silent stream of server-sent events shows that it lives,
// so that proxies keep it: they commonly wait 30 seconds or more.
const beatEvery = 15 * time.Second

// getEvents is Watch over HTTP: a line of JSON an item, or server-sent events.
func (s *Server) getEvents(w http.ResponseWriter, r *http.Request) {
	q, f, err := query(r, "since")
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	since, err := place(r, q)
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	form := formNDJSON
	if wantsSSE(r.Header.Values("Accept")) {
		form = formSSE
	}
	fo, err := s.open(form, since, f)
	switch {
	case errors.Is(err, errFull):
		retryAfter(w.Header(), time.Second)
		refuse(w, http.StatusTooManyRequests, s.tooManyWatchers())
		return
	case errors.Is(err, errEnding):
		refuse(w, http.StatusServiceUnavailable, errEnding.Error())
		return
	case err != nil:
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	defer fo.close()
	ctx, stop := s.untilEnd(r.Context())
	defer stop()
	expired, err := fo.expired(ctx)
	switch {
	case errors.Is(err, errEnding):
		refuse(w, http.StatusServiceUnavailable, errEnding.Error())
		return
	case err != nil:
		return // the client is gone
	case expired:
		refuse(w, http.StatusGone, fmt.Sprintf("what happened after %s is not kept any more: start anew, without since and Last-Event-ID, with all pods as they are", since))
		return
	}

	out := &httpSink{server: s, w: w, control: http.NewResponseController(w), sse: form == formSSE}
	header := w.Header()
	header.Set("X-Accel-Buffering", "no") // nginx would gather the stream
	if out.sse {
		header.Set("Content-Type", typeSSE)
	} else {
		header.Set("Content-Type", typeNDJSON)
	}
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	// The server's timeout for reading would end the wait for the client's end.
	_ = out.control.SetReadDeadline(time.Time{})
	if err := out.begin(); err == nil {
		// What ended it, the client sees: by the end of the stream it knows to resume.
		_ = fo.run(ctx, out)
	}
	out.arm() // for the end of the stream, which is still to be written
}

// wantsSSE reports whether an Accept header names server-sent events.
func wantsSSE(accept []string) bool {
	for _, value := range accept {
		for part := range strings.SplitSeq(value, ",") {
			if kind, _, err := mime.ParseMediaType(part); err == nil && kind == typeSSE {
				return true
			}
		}
	}
	return false
}

// httpSink writes lines of JSON, as they are or as server-sent events.
type httpSink struct {
	server  *Server
	w       http.ResponseWriter
	control *http.ResponseController
	sse     bool
	// armed is when the deadline for writing was last put off, zero while there is
	// none; wrote is the last write.
	armed, wrote time.Time
}

// begin has the client connect again soon after the stream ends.
func (h *httpSink) begin() error {
	if h.sse {
		if err := h.write([]byte("retry: 1000\n\n")); err != nil {
			return err
		}
	}
	return h.flush()
}

func (h *httpSink) event(e *event.Event) error {
	data, err := h.server.cache.json(e)
	if err != nil {
		return err
	}
	return h.item("event", merge.Token{Epoch: e.Epoch, Sequence: e.Sequence}, data)
}

func (h *httpSink) pod(p *event.PodStatus) error {
	return h.encode("pod", line{Pod: p}, merge.Token{})
}

func (h *httpSink) synced(t merge.Token) error {
	return h.encode("synced", line{Synced: &struct{}{}, Token: t.String()}, t)
}

func (h *httpSink) bookmark(t merge.Token) error {
	return h.encode("bookmark", line{Bookmark: &struct{}{}, Token: t.String()}, t)
}

func (h *httpSink) expired(since merge.Token) error {
	if h.sse {
		// The empty ID makes the client forget the token: should the connection break
		// before the snapshot is complete, it starts anew.
		if err := h.write([]byte("id\n")); err != nil {
			return err
		}
	}
	return h.encode("expired", line{Expired: &expiredLine{since.String()}}, merge.Token{})
}

func (h *httpSink) encode(name string, l line, t merge.Token) error {
	data, err := encodeJSON(l)
	if err != nil {
		return err
	}
	return h.item(name, t, data)
}

// item writes a line, which ends in a newline.
func (h *httpSink) item(name string, t merge.Token, data []byte) error {
	if !h.sse {
		return h.write(data)
	}
	head := make([]byte, 0, 128)
	if !t.IsZero() {
		head = append(head, "id: "...)
		head = append(head, t.String()...)
		head = append(head, '\n')
	}
	head = append(head, "event: "...)
	head = append(head, name...)
	head = append(head, "\ndata: "...)
	if err := h.write(head); err != nil {
		return err
	}
	if err := h.write(data); err != nil {
		return err
	}
	return h.write([]byte{'\n'})
}

// beat writes a comment when the stream has been silent for long.
func (h *httpSink) beat() error {
	if !h.sse || time.Since(h.wrote) < beatEvery {
		return nil
	}
	if err := h.write([]byte(":\n\n")); err != nil {
		return err
	}
	return h.flush()
}

func (h *httpSink) write(data []byte) error {
	h.arm()
	_, err := h.w.Write(data)
	return err
}

// flush returns once everything is in the hands of the kernel, or of HTTP/2 and within
// what the client has room for.
func (h *httpSink) flush() error {
	h.arm()
	if err := h.control.Flush(); err != nil {
		return err
	}
	h.disarm()
	return nil
}

// arm puts off the deadline for writing, so that only a client that does not read is
// cut off.
func (h *httpSink) arm() {
	h.wrote = time.Now()
	if h.wrote.Sub(h.armed) < time.Second {
		return
	}
	h.armed = h.wrote
	_ = h.control.SetWriteDeadline(h.wrote.Add(h.server.answerTimeout))
}

// disarm takes the deadline away while there is nothing to write. Under HTTP/1 one
// that passes hurts only the writes after it; HTTP/2 resets the stream at once, and a
// watch may be silent for long.
func (h *httpSink) disarm() {
	h.armed = time.Time{}
	_ = h.control.SetWriteDeadline(time.Time{})
}
