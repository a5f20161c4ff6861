package serve

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"

	hybridplegv1 "github.com/hybrid-pleg/hybrid-pleg/api/hybridpleg/v1"
	"github.com/hybrid-pleg/hybrid-pleg/internal/wire"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// defaultPage is how many pods a page has unless told otherwise: more than a node
// has, as a rule.
const defaultPage = 500

// maxPageToken is more than the longest names take.
const maxPageToken = 2048

// ListPods implements the API. A page token names the last pod of the page before, so
// the server keeps nothing between pages; the pods may have changed meanwhile.
func (s service) ListPods(_ context.Context, req *hybridplegv1.ListPodsRequest) (*hybridplegv1.ListPodsResponse, error) {
	f, err := newFilter(req.GetFilter())
	if err != nil {
		return nil, err
	}
	if req.GetPageSize() < 0 {
		return nil, status.Errorf(codes.InvalidArgument, "page_size: %d is below 0", req.GetPageSize())
	}
	after, err := parsePageToken(req.GetPageToken())
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "page_token: %v", err)
	}
	most := int(req.GetPageSize())
	if most == 0 {
		most = defaultPage
	}
	snapshot := s.server.backend.Snapshot()
	resp := &hybridplegv1.ListPodsResponse{Token: snapshot.Token.String()}
	const rest = maxPageToken + 256 // what is left free for the rest of the message
	room := s.server.limits.MessageSize - rest
	var last *event.Pod
	for i := range snapshot.Pods {
		p := &snapshot.Pods[i]
		if after != nil && comparePods(&p.Pod, after) <= 0 || !f.Pods(p) {
			continue
		}
		m := wire.Pod(p)
		const overhead = 8 // a field's number and length
		size := proto.Size(m) + overhead
		if last == nil {
			if err := s.server.checkSize(size+rest, "pod", p.Pod.UID); err != nil {
				return nil, err
			}
		}
		if len(resp.Pods) == most || size > room {
			resp.NextPageToken = pageToken(last)
			break
		}
		room -= size
		resp.Pods = append(resp.Pods, m)
		last = &p.Pod
	}
	return resp, nil
}

// comparePods orders as snapshots do.
func comparePods(a, b *event.Pod) int {
	return cmp.Or(
		strings.Compare(a.Namespace, b.Namespace),
		strings.Compare(a.Name, b.Name),
		strings.Compare(a.UID, b.UID),
	)
}

func pageToken(last *event.Pod) string {
	data, err := json.Marshal(last)
	if err != nil {
		return "" // three strings can't fail
	}
	return base64.RawURLEncoding.EncodeToString(data)
}

var errPageToken = errors.New("it is not the next_page_token of an answer")

func parsePageToken(text string) (*event.Pod, error) {
	if text == "" {
		return nil, nil
	}
	if len(text) > maxPageToken {
		return nil, errPageToken
	}
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return nil, errPageToken
	}
	var last event.Pod
	if err := json.Unmarshal(data, &last); err != nil || last.UID == "" {
		return nil, errPageToken
	}
	return &last, nil
}
