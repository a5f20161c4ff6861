package workload

import (
	"strconv"
	"strings"

	"github.com/hybrid-pleg/hybrid-pleg/internal/embedded"
)

// role is what an actor plays. weight is its share of the transitions.
type role struct {
	weight float64
	play   func(*actor) error
}

// cast is who takes part; with more pods it is repeated.
func cast() []role {
	return []role{
		{0.1, service("web", "gateway", "search")},
		{3, cron("cleanup", "heartbeat", "rotate-keys")},
		{0.1, service("checkout", "ledger", "mail")},
		{1, crashing("worker", "indexer", "importer")},
		{1, job("report", "migrate", "thumbnails")},
		{0.1, service("auth", "profile", "session")},
		{0.3, hungry("cache", "queue", "store")},
		{0.1, service("catalog", "stock", "prices")},
	}
}

// service is a deployment of one pod that is rolled out anew now and then: the
// new pod is up before the old one goes. 11 transitions a roll-out.
func service(names ...string) func(*actor) error {
	return func(a *actor) error {
		name := a.pick(names...)
		var old pod
		var oldContainers []string
		for version := 1; ; version++ {
			p, err := a.replica("shop", name)
			if err != nil {
				return err
			}
			tag := ":1." + strconv.Itoa(version)
			api, err := a.start(p, "api", 0, "registry.example/"+name+tag, "run", "on-term", "0")
			if err != nil {
				return err
			}
			proxy, err := a.start(p, "proxy", 0, "registry.example/proxy:2.3", "run")
			if err != nil {
				return err
			}
			if old.id != "" {
				if err := a.remove(old, oldContainers...); err != nil {
					return err
				}
			}
			old, oldContainers = p, []string{api, proxy}
			if err := a.rest(11); err != nil {
				return err
			}
		}
	}
}

// job runs to its end, mostly a good one, and is cleared away a while later. 7
// transitions.
func job(names ...string) func(*actor) error {
	return func(a *actor) error {
		name := a.pick(names...)
		p, err := a.task("batch", name, name)
		if err != nil {
			return err
		}
		code := 0
		if a.rng.IntN(3) == 0 {
			code = 1 + a.rng.IntN(3)
		}
		id, err := a.start(p, name, 0, "registry.example/"+name+":7", "exit", strconv.Itoa(code), "after", a.span(1.5).String())
		if err != nil {
			return err
		}
		if err := a.wait(id); err != nil {
			return err
		}
		if err := a.rest(3); err != nil {
			return err
		}
		if err := a.remove(p, id); err != nil {
			return err
		}
		return a.rest(2.5)
	}
}

// cron is a short job that comes round again and again. 7 transitions.
func cron(names ...string) func(*actor) error {
	return func(a *actor) error {
		name := a.pick(names...)
		// The number that the cron job controller appends is a minute.
		minute := 29_000_000 + a.rng.IntN(1_000_000)
		for ; ; minute++ {
			p, err := a.task("kube-system", name, name+"-"+strconv.Itoa(minute))
			if err != nil {
				return err
			}
			id, err := a.start(p, name, 0, "registry.example/tools:4", "exit", "0", "after", a.span(0.5).String())
			if err != nil {
				return err
			}
			if err := a.wait(id); err != nil {
				return err
			}
			if err := a.rest(1); err != nil {
				return err
			}
			if err := a.remove(p, id); err != nil {
				return err
			}
			if err := a.rest(5.5); err != nil {
				return err
			}
		}
	}
}

// crashing exits with an error soon after each start, and is restarted with
// growing pauses until somebody has mercy on the pod. 4 transitions a start, 3
// for the pod.
func crashing(names ...string) func(*actor) error {
	return func(a *actor) error {
		name := a.pick(names...)
		p, err := a.replica("shop", name)
		if err != nil {
			return err
		}
		const attempts = 6
		if err := a.restart(p, name, attempts, func(attempt uint32) (string, float64) {
			return "exit 1 after " + a.span(0.5).String() + " message can't reach the database", float64(1 + attempt)
		}); err != nil {
			return err
		}
		if err := a.remove(p); err != nil {
			return err
		}
		return a.rest(3)
	}
}

// hungry is a stateful pod that keeps its name and runs out of memory from time
// to time. 4 transitions a start.
func hungry(names ...string) func(*actor) error {
	return func(a *actor) error {
		name := a.pick(names...)
		p, err := a.run("shop", name+"-0", embedded.Guaranteed, map[string]string{
			labelApp:                             name,
			"statefulset.kubernetes.io/pod-name": name + "-0",
			"apps.kubernetes.io/pod-index":       "0",
		})
		if err != nil {
			return err
		}
		return a.restart(p, name, 0, func(uint32) (string, float64) {
			return "oom after " + a.span(3.5).String(), 0.5
		})
	}
}

// labelApp is the label that charts select the pods of a program by.
const labelApp = "app.kubernetes.io/name"

// replica makes a pod of a deployment.
func (a *actor) replica(namespace, app string) (pod, error) {
	hash := a.suffix(9)
	return a.run(namespace, app+"-"+hash+"-"+a.suffix(5), embedded.Burstable, map[string]string{
		labelApp: app, "pod-template-hash": hash,
	})
}

// task makes a pod of a job.
func (a *actor) task(namespace, app, job string) (pod, error) {
	return a.run(namespace, job+"-"+a.suffix(5), embedded.BestEffort, map[string]string{
		labelApp: app, "batch.kubernetes.io/job-name": job, "job-name": job,
	})
}

// restart runs a container again and again, for ever if attempts is 0. plan gives
// the command of an attempt and the pause after it. Like the kubelet it keeps
// the last dead container and removes the one before.
func (a *actor) restart(p pod, name string, attempts uint32, plan func(attempt uint32) (command string, pause float64)) error {
	var dead string
	for attempt := uint32(0); attempts == 0 || attempt < attempts; attempt++ {
		command, pause := plan(attempt)
		id, err := a.start(p, name, attempt, "registry.example/"+name+":3", strings.Fields(command)...)
		if err != nil {
			return err
		}
		if dead != "" {
			if err := a.rt.Remove(a.ctx, dead); err != nil {
				return err
			}
		}
		dead = id
		if err := a.wait(id); err != nil {
			return err
		}
		if err := a.rest(pause); err != nil {
			return err
		}
	}
	return nil
}
