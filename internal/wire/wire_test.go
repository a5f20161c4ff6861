package wire

import (
	"errors"
	"reflect"
	"testing"
	"time"

	hybridplegv1 "github.com/hybrid-pleg/hybrid-pleg/api/hybridpleg/v1"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// fill sets every field of a value, so that one that is added to the vocabulary and
// forgotten here shows.
func fill(t *testing.T, v reflect.Value, n *int64) {
	t.Helper()
	*n++
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(time.Unix(1_700_000_000+*n, *n).UTC()))
		return
	case event.Type:
		v.Set(reflect.ValueOf(event.ContainerDied))
		return
	case event.State:
		v.Set(reflect.ValueOf([]event.State{event.StateRunning, event.StateExited}[*n%2]))
		return
	case event.FoundBy:
		v.Set(reflect.ValueOf(event.FoundPeriodic))
		return
	case event.StatusMissing:
		v.Set(reflect.ValueOf(event.StatusLate))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i), n)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fill(t, v.Index(i), n)
		}
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"a": "b", "c": ""}))
	case reflect.String:
		v.SetString(v.Type().Name() + string(rune('a'+*n%26)))
	case reflect.Int, reflect.Int32:
		v.SetInt(*n)
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(*n))
	case reflect.Bool:
		v.SetBool(true)
	default:
		t.Fatalf("a field of kind %s", v.Kind())
	}
}

// sent returns m as it arrives.
func sent[M proto.Message](t *testing.T, m M) M {
	t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	out := m.ProtoReflect().New().Interface().(M)
	if err := proto.Unmarshal(data, out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestEventThereAndBack(t *testing.T) {
	var full event.Event
	fill(t, reflect.ValueOf(&full).Elem(), new(int64))
	code := int32(0)
	for name, e := range map[string]event.Event{
		"full": full,
		"sandbox": {
			Epoch: "e", Sequence: 1, ID: "s/SandboxStarted", Type: event.SandboxStarted,
			Pod: event.Pod{UID: "u"}, Sandbox: &event.Sandbox{ID: "s"},
			From: event.StateNonExistent, To: event.StateRunning,
		},
		"exit 0": {
			Epoch: "e", Sequence: 2, ID: "c/ContainerDied", Type: event.ContainerDied, Pod: event.Pod{UID: "u"},
			Container: &event.Container{ID: "c"}, Status: &event.Status{ExitCode: &code},
		},
	} {
		got, err := ToEvent(sent(t, Event(&e)))
		if err != nil || !reflect.DeepEqual(got, e) {
			t.Errorf("%s: %v\ngot  %+v\nwant %+v", name, err, got, e)
		}
	}
}

func TestPodThereAndBack(t *testing.T) {
	var full event.PodStatus
	fill(t, reflect.ValueOf(&full).Elem(), new(int64))
	for name, p := range map[string]event.PodStatus{
		"full":  full,
		"empty": {Pod: event.Pod{UID: "u"}},
	} {
		got, err := ToPod(sent(t, Pod(&p)))
		if err != nil || !reflect.DeepEqual(got, p) {
			t.Errorf("%s: %v\ngot  %+v\nwant %+v", name, err, got, p)
		}
	}
}

// TestNumbers has each word of the vocabulary and each number of the API have the
// other.
func TestNumbers(t *testing.T) {
	for n := range hybridplegv1.EventType_name {
		number := hybridplegv1.EventType(n)
		word, err := ToType(number)
		if unspecified := n == 0; unspecified != errors.Is(err, ErrUnknownType) || Type(word) != number {
			t.Errorf("%s is %q, and that is %s (%v)", number, word, Type(word), err)
		}
	}
	for _, word := range event.Types() {
		if back, err := ToType(Type(word)); err != nil || back != word {
			t.Errorf("%s comes back as %q, %v", word, back, err)
		}
	}
	for n := range hybridplegv1.State_name {
		if number := hybridplegv1.State(n); State(ToState(number)) != number {
			t.Errorf("%s comes back as %s", number, State(ToState(number)))
		}
	}
	for n := range hybridplegv1.StatusMissing_name {
		if number := hybridplegv1.StatusMissing(n); missings.number(missings.word(number)) != number {
			t.Errorf("%s is %q", number, missings.word(number))
		}
	}
	for n := range hybridplegv1.FoundBy_name {
		if number := hybridplegv1.FoundBy(n); foundBys.number(foundBys.word(number)) != number {
			t.Errorf("%s is %q", number, foundBys.word(number))
		}
	}
}

// TestNewerServer has numbers that this version does not know.
func TestNewerServer(t *testing.T) {
	e := &hybridplegv1.Event{
		Epoch: "e", Sequence: 1, Id: "x", Pod: &hybridplegv1.PodRef{Uid: "u"},
		Type: hybridplegv1.EventType_EVENT_TYPE_CONTAINER_DIED, From: 77, StatusMissing: 7,
		Detection: &hybridplegv1.Detection{FoundBy: 9},
	}
	got, err := ToEvent(e)
	if err != nil || got.From != event.StateUnknown || got.StatusMissing != "unknown-7" || got.Detection.FoundBy != "unknown-9" {
		t.Errorf("%+v, %v", got, err)
	}
	e.Type = 99
	if _, err := ToEvent(e); !errors.Is(err, ErrUnknownType) {
		t.Errorf("type 99: %v", err)
	}
}

func TestMalformed(t *testing.T) {
	for name, m := range map[string]*hybridplegv1.Event{
		"nil":         nil,
		"empty":       {},
		"no pod":      {Epoch: "e", Sequence: 1, Id: "x", Type: 1},
		"no sequence": {Epoch: "e", Id: "x", Type: 1, Pod: &hybridplegv1.PodRef{Uid: "u"}},
		"bad time": {Epoch: "e", Sequence: 1, Id: "x", Type: 1, Pod: &hybridplegv1.PodRef{Uid: "u"},
			Time: &timestamppb.Timestamp{Nanos: -1}},
	} {
		if _, err := ToEvent(m); !errors.Is(err, ErrMalformed) {
			t.Errorf("event, %s: %v", name, err)
		}
	}
	for name, m := range map[string]*hybridplegv1.Pod{
		"nil":   nil,
		"empty": {},
		"bad time": {Pod: &hybridplegv1.PodRef{Uid: "u"}, Containers: []*hybridplegv1.ContainerState{
			nil, {Status: &hybridplegv1.Status{FinishedAt: &timestamppb.Timestamp{Seconds: 1 << 60}}},
		}},
	} {
		if _, err := ToPod(m); !errors.Is(err, ErrMalformed) {
			t.Errorf("pod, %s: %v", name, err)
		}
	}
}
