package client

import (
	hybridplegv1 "github.com/hybrid-pleg/hybrid-pleg/api/hybridpleg/v1"
	"github.com/hybrid-pleg/hybrid-pleg/internal/filter"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
)

// Filter picks pods and events. What is set must all hold; of a list any one. The
// zero value picks everything.
type Filter struct {
	Namespaces []string
	PodNames   []string
	PodUIDs    []string
	// LabelSelector is in Kubernetes' syntax, such as "app=web,tier!=cache". It
	// applies to the labels of the pod's sandbox.
	LabelSelector string
	// Types and Subject pick events, not pods.
	Types   []event.Type
	Subject Subject
}

// Subject is what events are about.
type Subject string

// The subjects. A PodSync is about its container; one without is about its sandbox.
const (
	SubjectAll       Subject = ""
	SubjectContainer Subject = "container"
	SubjectSandbox   Subject = "sandbox"
)

// Check returns why the filter can't be one; the error wraps [ErrFilter].
func (f Filter) Check() error {
	_, _, err := f.split()
	return err
}

// split checks a filter and returns what the daemon is to pick by, which is the pods,
// and what is picked here: to know what was told of a container all its events are
// needed, also those that the caller does not want.
func (f Filter) split() (pods *hybridplegv1.Filter, events func(*event.Event) bool, err error) {
	remote := filter.Spec{
		Namespaces: f.Namespaces, PodNames: f.PodNames, PodUIDs: f.PodUIDs, LabelSelector: f.LabelSelector,
	}
	if _, err := filter.New(remote); err != nil {
		return nil, nil, err
	}
	local, err := filter.New(filter.Spec{Types: f.Types, Subject: filter.Subject(f.Subject)})
	if err != nil {
		return nil, nil, err
	}
	return remote.Proto(), local.Events, nil
}
