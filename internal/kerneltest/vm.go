package kerneltest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// machine is a virtual machine to be started.
type machine struct {
	run                       Run
	vmlinuz, initramfs, image string
	// accel is QEMU's accelerator: "tcg" emulates, "kvm" needs a host that can.
	accel string
	// console is the file for what the kernel prints; it is for finding out why a machine
	// does not come up.
	console string
}

// machineTime bounds the life of a machine: many times what one needs on two idle processors. Each
// suite has a limit of its own, which tells more when it is reached.
const machineTime = 40 * time.Minute

// arguments are those of QEMU, the program first.
func (m machine) arguments() []string {
	var args []string
	commandLine := []string{
		"quiet", "panic=-1", "kerneltest.layout=" + string(m.run.Layout), "kerneltest.suites=" + suiteNames(m.run.Suites),
		// Nothing has to be kept from anybody here, and emulation makes this dear: with it, and on a
		// newer processor, for which kernels copy and clear memory by the instructions that are the
		// slowest to emulate, loading the probe takes more than twice as long.
		"mitigations=off", "init_on_alloc=0",
	}
	accel, cpu := m.accel, "Nehalem"
	if m.run.Kernel.Arch != runtime.GOARCH {
		accel = "tcg" // no host can do otherwise
	}
	if m.run.Kernel.Arch == "arm64" {
		args = []string{"qemu-system-aarch64", "-M", "virt"}
		commandLine = append(commandLine, "console=ttyAMA0")
		// A processor without pointer authentication, which is several times as fast to emulate.
		cpu = "cortex-a72"
	} else {
		args = []string{"qemu-system-x86_64", "-M", "q35"}
		// The emulated clocks other than the processor's own are slow to read.
		commandLine = append(commandLine, "console=ttyS0", "tsc=reliable", "clocksource=tsc")
	}
	switch {
	case accel == "kvm":
		cpu = "host"
	case m.run.Kernel.OneThread:
		accel = "tcg,thread=single"
	default:
		accel = "tcg,thread=multi"
	}
	return append(args,
		"-accel", accel, "-cpu", cpu, "-smp", "2", "-m", "2G", "-nodefaults", "-no-user-config",
		"-nographic", "-nic", "none", "-no-reboot",
		"-kernel", m.vmlinuz, "-initrd", m.initramfs, "-append", strings.Join(commandLine, " "),
		"-serial", "file:"+m.console,
		// What is written to the disk goes into a temporary file without a name.
		"-drive", "file="+m.image+",format=raw,if=virtio,snapshot=on",
		"-device", "virtio-serial-pci",
		"-chardev", "stdio,id=port,signal=off", "-device", "virtserialport,chardev=port,name=kerneltest",
	)
}

// start runs the machine until it is switched off, or ctx ends, and copies what it says to w.
// Nothing of it is left then.
func (m machine) start(ctx context.Context, w io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, machineTime)
	defer cancel()
	args := m.arguments()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.SysProcAttr = childAttr()
	// QEMU's temporary file.
	cmd.Env = append(os.Environ(), "TMPDIR="+filepath.Dir(m.image))
	// An end of input would not end the machine, but nothing is to be said to it.
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	defer stdin.Close()
	var complaints strings.Builder
	cmd.Stdout, cmd.Stderr = w, &complaints

	// The thread that starts QEMU must last as long, see childAttr.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("the machine was switched off: %w", ctx.Err())
		}
		return errors.Join(err, asError(complaints.String()), asError(m.lastWords()))
	}
	return nil
}

// lastWords is the end of what the kernel printed.
func (m machine) lastWords() string {
	data, _ := os.ReadFile(m.console)
	// The firmware writes for terminals.
	text := strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' {
			return -1
		}
		return r
	}, string(data))
	lines := strings.SplitAfter(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "")
}

func asError(text string) error {
	if text = strings.TrimSpace(text); text == "" {
		return nil
	}
	return errors.New(text)
}

func suiteNames(suites []Suite) string {
	var names []string
	for _, s := range suites {
		names = append(names, s.Name)
	}
	return strings.Join(names, ",")
}
