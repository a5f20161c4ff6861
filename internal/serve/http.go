package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/filter"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
)

// answerTimeout bounds the writing of an answer, and of a piece of a stream: a client
// that takes longer is cut off. See also [httpSink.arm].
const answerTimeout = 30 * time.Second

// pages are the HTTP forms of the API's methods.
func (s *Server) pages() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/pods", s.getPods)
	mux.HandleFunc("GET /v1/pods/{uid}", s.getPod)
	mux.HandleFunc("GET /v1/info", s.getInfo)
	mux.HandleFunc("GET /v1/events", s.getEvents)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("hybrid-pleg\n\n/v1/pods\n/v1/pods/{uid}\n/v1/info\n/v1/events\n"))
	})
	return s.admitHTTP(mux)
}

// methodOf names a page as the API does, for metrics.
func methodOf(pattern string) string {
	switch pattern {
	case "GET /v1/pods":
		return "ListPods"
	case "GET /v1/pods/{uid}":
		return "GetPod"
	case "GET /v1/info":
		return "GetInfo"
	case "GET /v1/events":
		return "Watch"
	default:
		return "other"
	}
}

// admitHTTP bounds the rate of requests and counts them.
func (s *Server) admitHTTP(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := &recorder{ResponseWriter: w}
		defer func() {
			s.metrics.requests.WithLabelValues(protocolHTTP, methodOf(r.Pattern), fmt.Sprint(rec.code())).Inc()
		}()
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		if err := s.requests.enter(); err != nil {
			refuse(rec, http.StatusServiceUnavailable, errEnding.Error())
			return
		}
		defer s.requests.leave()
		if ok, wait := s.admit(); !ok {
			retryAfter(w.Header(), wait)
			refuse(rec, http.StatusTooManyRequests, s.tooManyRequests())
			return
		}
		next.ServeHTTP(rec, r)
	})
}

// recorder keeps the status of an answer.
type recorder struct {
	http.ResponseWriter
	status int
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(b)
}

// Unwrap is for [http.ResponseController].
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (r *recorder) code() int {
	if r.status == 0 {
		return http.StatusOK
	}
	return r.status
}

// refusal is the body of an answer that is none.
type refusal struct {
	Error string `json:"error"`
}

func refuse(w http.ResponseWriter, code int, message string) {
	answer(w, code, refusal{message})
}

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(body) // it can only fail to be sent
}

// podsPage is the body of /v1/pods, podPage that of /v1/pods/{uid}. Token is the
// place in the stream of events that they show.
type podsPage struct {
	Pods  []*event.PodStatus `json:"pods"`
	Token string             `json:"token"`
}

type podPage struct {
	Pod   *event.PodStatus `json:"pod"`
	Token string           `json:"token"`
}

func (s *Server) getPods(w http.ResponseWriter, r *http.Request) {
	_, f, err := query(r)
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	snapshot := s.backend.Snapshot()
	page := podsPage{Pods: []*event.PodStatus{}, Token: snapshot.Token.String()}
	for i := range snapshot.Pods {
		if p := &snapshot.Pods[i]; f.Pods(p) {
			page.Pods = append(page.Pods, p)
		}
	}
	answer(w, http.StatusOK, page)
}

func (s *Server) getPod(w http.ResponseWriter, r *http.Request) {
	snapshot := s.backend.Snapshot()
	p := findPod(&snapshot, r.PathValue("uid"))
	if p == nil {
		refuse(w, http.StatusNotFound, fmt.Sprintf("there is no pod with the UID %.100q on this node", r.PathValue("uid")))
		return
	}
	answer(w, http.StatusOK, podPage{p, snapshot.Token.String()})
}

func (s *Server) getInfo(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, s.info())
}

// query reads a request's parameters; also names those allowed beside the filter's.
func query(r *http.Request, also ...string) (url.Values, *filter.Filter, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, nil, fmt.Errorf("the query can't be read: %w", err)
	}
	known := append(filter.QueryKeys(), also...)
	for key := range q {
		if !slices.Contains(known, key) {
			return nil, nil, fmt.Errorf("there is no parameter %.100q: give some of %s", key, strings.Join(known, ", "))
		}
	}
	spec, err := filter.FromQuery(q)
	if err != nil {
		return nil, nil, err
	}
	f, err := filter.New(spec)
	return q, f, err
}

// place reads the token to resume from. The header wins: a client that reconnects by
// itself sends it along with the address that it began with.
func place(r *http.Request, q url.Values) (merge.Token, error) {
	text, from := r.Header.Get("Last-Event-ID"), "Last-Event-ID"
	if text == "" {
		text, from = q.Get("since"), "since"
	}
	if len(q["since"]) > 1 {
		return merge.Token{}, errors.New("since is given more than once")
	}
	if text == "" {
		return merge.Token{}, nil
	}
	token, err := merge.ParseToken(text)
	if err != nil {
		return merge.Token{}, fmt.Errorf("%s: %w", from, err)
	}
	return token, nil
}
