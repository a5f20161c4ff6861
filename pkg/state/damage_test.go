package state

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
	bolt "go.etcd.io/bbolt"
)

// written makes a file by some transactions, the data of which it returns, together
// with the states after the last of them and the one before: what a file of that
// process can ever be.
func written(t *testing.T) (data []byte, valid map[string]bool) {
	t.Helper()
	l, err := merge.New(merge.Options{Epoch: "e", JournalEvents: 60, Removed: 20})
	check(t, err)
	s := newShared(t, t.TempDir(), l, wide)
	n := newNode(5)
	valid = map[string]bool{}
	s.keep()
	for range 6 {
		publish(l, n, 25)
		s.keep()
	}
	valid[text(t, s.read())] = true
	publish(l, n, 10)
	s.keep()
	valid[text(t, s.read())] = true
	if len(valid) != 2 {
		t.Fatal("the last transaction changed nothing")
	}
	s.file.close()
	data, err = os.ReadFile(s.file.path())
	check(t, err)
	return data, valid
}

// TestDamagedFile turns over bits, overwrites stretches and cuts the file off, all
// over it: it must load as it was written, or else be refused; never crash, hang or
// load as anything else.
func TestDamagedFile(t *testing.T) {
	data, valid := written(t)
	path := filepath.Join(t.TempDir(), fileName)
	seed := rand.Uint64()
	t.Logf("seed %d, %d bytes", seed, len(data))
	r := rand.New(rand.NewPCG(seed, 0))
	loaded, refused := 0, 0
	try := func(what string, at int, damaged []byte) {
		t.Helper()
		check(t, os.WriteFile(path, damaged, 0o600))
		s, err := load(path, time.Hour, time.Now())
		var bad *unusable
		switch {
		case err == nil && !valid[text(t, s)]:
			t.Fatalf("%s at %d: it loads as something that was never written", what, at)
		case err == nil:
			loaded++
		case !errors.As(err, &bad):
			t.Fatalf("%s at %d: %v", what, at, err)
		default:
			refused++
		}
	}
	var offsets []int
	for page := 0; page < len(data); page += os.Getpagesize() {
		// Where pages begin, and their first elements.
		for i := range 16 {
			offsets = append(offsets, page+i)
		}
	}
	for range 250 {
		offsets = append(offsets, r.IntN(len(data)))
	}
	for _, at := range offsets {
		if at >= len(data) {
			continue
		}
		damaged := append([]byte(nil), data...)
		damaged[at] ^= 1 << r.IntN(8)
		try("a bit", at, damaged)
	}
	for range 80 {
		at := r.IntN(len(data))
		damaged := append([]byte(nil), data...)
		for i := at; i < min(len(damaged), at+1+r.IntN(300)); i++ {
			damaged[i] = byte(r.Uint32())
		}
		try("a stretch", at, damaged)
	}
	for range 60 {
		from, to := r.IntN(len(data)/4096), r.IntN(len(data)/4096)
		damaged := append([]byte(nil), data...)
		copy(damaged[to*4096:(to+1)*4096], data[from*4096:])
		try("a page in place of another", to*4096, damaged)
	}
	for range 80 {
		at := r.IntN(len(data))
		try("the end", at, data[:at])
	}
	if loaded == 0 || refused == 0 {
		t.Errorf("%d loaded, %d refused: some of it is not tried", loaded, refused)
	}
	t.Logf("%d loaded, %d refused", loaded, refused)
}

// TestUnusableFile says what becomes of each kind of file.
func TestUnusableFile(t *testing.T) {
	data, _ := written(t)
	inBolt := func(change func(*bolt.Tx) error) []byte {
		path := filepath.Join(t.TempDir(), fileName)
		check(t, os.WriteFile(path, data, 0o600))
		db, err := bolt.Open(path, 0, nil)
		check(t, err)
		check(t, db.Update(change))
		check(t, db.Close())
		changed, err := os.ReadFile(path)
		check(t, err)
		return changed
	}
	put := func(bucket, key []byte, value string) func(*bolt.Tx) error {
		return func(tx *bolt.Tx) error { return tx.Bucket(bucket).Put(key, []byte(value)) }
	}
	for name, row := range map[string]struct {
		data []byte
		kind string
	}{
		"newer":                    {inBolt(put(bucketMeta, keyFormat, "2")), "newer"},
		"no format":                {inBolt(put(bucketMeta, keyFormat, "x")), "corrupt"},
		"another program's":        {inBolt(func(tx *bolt.Tx) error { return tx.DeleteBucket(bucketMeta) }), "foreign"},
		"another magic":            {inBolt(put(bucketMeta, keyMagic, "etcd")), "foreign"},
		"text":                     {[]byte("hello"), "foreign"},
		"empty":                    {nil, "foreign"},
		"cut off":                  {data[:len(data)/2], "corrupt"},
		"no journal":               {inBolt(func(tx *bolt.Tx) error { return tx.DeleteBucket(bucketJournal) }), "corrupt"},
		"head of another":          {inBolt(put(bucketMeta, keyHead, strings.Repeat("\x00", 8)+"{}")), "corrupt"},
		"an item that is no item":  {inBolt(put(bucketItems, []byte("cx"), "[]")), "corrupt"},
		"one more item":            {inBolt(put(bucketItems, []byte("cx"), `{"container":{"id":"x"}}`)), "corrupt"},
		"an event that is none":    {inBolt(put(bucketJournal, number(9999), "x")), "corrupt"},
		"a tombstone that is none": {inBolt(put(bucketRemoved, number(9999), "x")), "corrupt"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, fileName)
			now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))
			for n, suffix := range []string{"20260102T020405Z", "20260102T020405Z-2"} {
				check(t, os.WriteFile(path, row.data, 0o600))
				log, lines := logger()
				k := open(t, Options{Dir: dir, Log: log, Now: func() time.Time { return now }})
				if k.Restored() != nil {
					t.Fatal("something of it is used")
				}
				kept, err := os.ReadFile(path + "." + row.kind + "-" + suffix)
				if err != nil || string(kept) != string(row.data) {
					t.Errorf("time %d: what was moved aside is not as it was: %v", n, err)
				}
				if lines.count("moved aside") != 1 || lines.count("why="+row.kind) != 1 {
					t.Errorf("logged\n%s", lines.buf.String())
				}
				check(t, k.Close())
			}
		})
	}
}

// FuzzLoad lets the fuzzer make files; what it finds to crash on crashes the test.
func FuzzLoad(f *testing.F) {
	f.Add([]byte("hello"))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), fileName)
		check(t, os.WriteFile(path, data, 0o600))
		_, err := load(path, time.Hour, time.Now())
		var bad *unusable
		if err != nil && !errors.As(err, &bad) {
			t.Error(err)
		}
	})
}
