package mpicomm

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/mpi4go/mpi4go/internal/cmpi"
)

// Environment is what Init found and decided; [Info] returns it.
type Environment struct {
	Version        string      // of mpi4go
	Library        string      // the MPI library's soname or path
	LibraryVersion string      // its own name and version
	Family         string      // the binary interface: "openmpi", "mpiabi" or "mpich"
	Why            string      // why this library was chosen
	Standard       string      // the version of the MPI standard
	Transport      string      // what carries the messages, as far as it can be told
	Launcher       string      // what started the job, "" if nothing did
	ThreadLevel    ThreadLevel // provided by MPI
	Funneled       bool        // one thread makes all MPI calls
	Attached       bool        // another package had initialised MPI
	Doorbell       string      // which ranks wake each other's drivers, or why none do
	TagUB          int         // the largest tag
	Rank, Size     int
	LocalRank      int    // among the ranks of this host
	LocalSize      int    // ranks on this host
	Binding        string // the cores that this process may use
	GOMAXPROCS     string // its value, and what Init did about it
	DeviceMemory   DeviceMemory
	Quirks         []string
	Settings       []Setting
}

// Info returns what Init found and decided: the MPI library and why it was
// chosen, the transport, the thread level, the settings in force. It is local.
// It fails before Init and after Finalize.
func Info() (Environment, error) {
	p, err := current()
	if err != nil {
		return Environment{}, err
	}
	return p.info, nil
}

func (p *process) newInfo(settings []Setting, procs string, launcher cmpi.Launcher) Environment {
	info := Environment{
		Version:        Version,
		Library:        p.lib.Path,
		LibraryVersion: p.lib.ShortVersion(),
		Family:         p.lib.Family,
		Why:            p.lib.Why,
		Standard:       fmt.Sprintf("%d.%d", p.lib.Major, p.lib.Minor),
		Transport:      p.lib.Transport(),
		Launcher:       launcher.Name,
		ThreadLevel:    ThreadLevel(p.start.Provided + 1),
		Funneled:       p.funnel,
		Attached:       p.attached,
		Doorbell:       p.describeBells(),
		TagUB:          p.start.TagUB,
		Rank:           p.start.Rank,
		Size:           p.start.Size,
		LocalRank:      p.start.LocalRank,
		LocalSize:      p.start.LocalSize,
		Binding:        binding(),
		GOMAXPROCS:     procs,
		DeviceMemory:   p.able,
		Settings:       settings,
	}
	for _, q := range p.lib.Quirks() {
		info.Quirks = append(info.Quirks, q.Text)
	}
	return info
}

// onlineCores is the number of cores of the host, of which a launcher may have
// given this process fewer (runtime.NumCPU).
func onlineCores() int {
	list, err := os.ReadFile("/sys/devices/system/cpu/online") // such as 0-3,8
	if err != nil {
		return runtime.NumCPU()
	}
	n := 0
	for part := range strings.SplitSeq(strings.TrimSpace(string(list)), ",") {
		first, last, found := strings.Cut(part, "-")
		if !found {
			last = first
		}
		from, err1 := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if err1 != nil || err2 != nil {
			return runtime.NumCPU()
		}
		n += to - from + 1
	}
	return n
}

// binding names the cores that the process may use.
func binding() string {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return fmt.Sprintf("%d cores", runtime.NumCPU())
	}
	for line := range strings.Lines(string(status)) {
		if list, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
			return fmt.Sprintf("cores %s (%d)", strings.TrimSpace(list), runtime.NumCPU())
		}
	}
	return fmt.Sprintf("%d cores", runtime.NumCPU())
}

// String is a table of everything, a line for each.
func (i Environment) String() string {
	var b strings.Builder
	row := func(name, format string, a ...any) { fmt.Fprintf(&b, "%-14s %s\n", name, fmt.Sprintf(format, a...)) }
	row("mpi4go", "%s", i.Version)
	row("MPI library", "%s, %s, MPI %s", i.LibraryVersion, i.Library, i.Standard)
	row("family", "%s, because: %s", i.Family, i.Why)
	row("transport", "%s", i.Transport)
	if i.Launcher != "" {
		row("launcher", "%s", i.Launcher)
	}
	threads := i.ThreadLevel.String()
	if i.Funneled {
		threads += ", so one thread makes all calls"
	}
	if i.Attached {
		threads += ", of an MPI that another package has initialised"
	}
	row("thread level", "%s", threads)
	row("doorbell", "%s", i.Doorbell)
	row("tag limit", "%d", i.TagUB)
	row("rank", "%d of %d, on this host %d of %d", i.Rank, i.Size, i.LocalRank, i.LocalSize)
	row("binding", "%s", i.Binding)
	row("GOMAXPROCS", "%s", i.GOMAXPROCS)
	for j, c := range []Capability{i.DeviceMemory.PointToPoint, i.DeviceMemory.Datatypes, i.DeviceMemory.Collectives} {
		able := "staged"
		if c.Able {
			able = "direct, of " + i.DeviceMemory.Device
		}
		row("device memory", "%s %s: %s", deviceUses[j], able, c.Why)
	}
	for _, q := range i.Quirks {
		row("quirk", "%s", q)
	}
	for _, s := range i.Settings {
		row("setting", "%s=%s (%s, %s)", s.Field, s.Value, s.Source, s.Env)
	}
	return b.String()
}
