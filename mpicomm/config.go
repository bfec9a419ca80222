package mpicomm

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mpi4go/mpi4go/internal/cmpi"
	"github.com/mpi4go/mpi4go/internal/wire"
)

// Config says how to initialise the library. The zero value is right for most
// programs. An environment variable that is set goes before the field.
type Config struct {
	// MPI chooses the library: "openmpi", "mpich", "mpiabi", or the path of one.
	// Zero: the one in the process already, else the one of the launcher, else
	// the first that is found. MPI4GO_MPI.
	MPI string

	// ThreadLevel is asked of MPI_Init_thread. Zero: ThreadSerialized. Below
	// that all calls are made by one thread, which costs latency. It does not
	// matter where another package has initialised MPI.
	// MPI4GO_THREAD_LEVEL: funneled, serialized or multiple.
	ThreadLevel ThreadLevel

	// Exclusive promises that the program makes MPI calls of its own only
	// inside [Exclusive]. Attaching to an MPI that another package has
	// initialised then needs MPI_THREAD_SERIALIZED, and without the promise
	// MPI_THREAD_MULTIPLE. It matters for nothing else. MPI4GO_EXCLUSIVE: 1 or 0.
	Exclusive bool

	// GOMAXPROCS is the least value that Init leaves in runtime.GOMAXPROCS,
	// unless the environment variable of that name is set. A launcher that
	// binds a rank to one core would leave 1, and a busy goroutine would then
	// delay every message by about 10 ms. Zero: 2; negative: do not touch it.
	// MPI4GO_GOMAXPROCS.
	GOMAXPROCS int

	// Spins is how many times one call into C polls before it returns to Go.
	// Zero: 200. MPI4GO_SPINS.
	Spins int

	// LeadTime is how long a waiting goroutine polls by itself before it parks
	// and the background driver polls. Zero: 500 us. MPI4GO_LEAD_TIME.
	LeadTime time.Duration

	// IdleNap bounds the driver's naps after five seconds without traffic, and
	// with it the time that a message may then wait for its receiver. Where the
	// doorbell wakes it for every message the naps are four times as long.
	// Zero: 8 ms. MPI4GO_IDLE_NAP.
	IdleNap time.Duration

	// Doorbell says whether the processes of a host wake each other's drivers:
	// "on" or "off". Off, a message to a process that has been idle waits until
	// that looks for it: see IdleNap. Two more values are for tests: "drop", where
	// no bell rings, and "flood", where all of them do, all the time. Zero: "on".
	// MPI4GO_DOORBELL.
	Doorbell string

	// CancelTimeout is how long a receive whose context ended waits for MPI to
	// say whether it had matched. Zero: 100 ms. MPI4GO_CANCEL_TIMEOUT.
	CancelTimeout time.Duration

	// Plans says how the frames of multi-buffer messages travel, by their length:
	// a list such as "inline:512,datatype:1M,request", in which each plan is
	// for frames of up to as many bytes. Zero: what suits the MPI that was found;
	// "pingpong tune" tells what suits the machine. Ranks may differ in it.
	// docs/wire.md; MPI4GO_PLANS.
	Plans string

	// MaxFrames bounds the frames of a multi-buffer message, MaxHeader the bytes
	// of its header with the inline frames in it, and MaxMessage the bytes of all
	// frames: a message beyond them is refused by both sides, before anything is
	// allocated. Zero: 1048576, 67108864 (64 MiB) and 1099511627776 (1 TiB).
	// MPI4GO_MAX_FRAMES, MPI4GO_MAX_HEADER, MPI4GO_MAX_MESSAGE.
	MaxFrames, MaxHeader, MaxMessage int

	// DeviceMemory says what MPI is given device memory for; everything else is
	// staged through page-locked host memory. "none", or some of "point-to-point",
	// "datatypes" and "collectives", with commas between them, overrides what Init
	// finds out about the library: a wrong answer crashes the process. Zero: "auto".
	// docs/gpu.md; MPI4GO_DEVICE_MEMORY.
	DeviceMemory string

	// StagingLimit bounds the page-locked memory through which device memory is
	// staged: bytes for each device and direction. It is also the longest plain
	// message of device memory that is staged; messages of frames go in pieces.
	// It is a power of two, at least 16 MiB. Zero: 268435456 (256 MiB).
	// MPI4GO_STAGING_LIMIT.
	StagingLimit int

	// DrainTimeout is how long Finalize waits for what is in flight, and for
	// the other ranks to get there, and then for MPI_Finalize. Zero: 30 s. MPI4GO_DRAIN_TIMEOUT.
	DrainTimeout time.Duration

	// Debug records where each operation was started and reports requests that
	// nobody waited for. It costs about a microsecond for each operation.
	// MPI4GO_DEBUG: 1 or 0.
	Debug bool
}

// ThreadLevel is a level of thread support (MPI-4.1 11.6.2).
type ThreadLevel int

// The levels of thread support.
const (
	ThreadSingle     ThreadLevel = iota + 1 // MPI_THREAD_SINGLE
	ThreadFunneled                          // MPI_THREAD_FUNNELED
	ThreadSerialized                        // MPI_THREAD_SERIALIZED
	ThreadMultiple                          // MPI_THREAD_MULTIPLE
)

var threadLevels = []string{"", "single", "funneled", "serialized", "multiple"}

// String is the name of the level without MPI_THREAD_, in lower case.
func (l ThreadLevel) String() string {
	if l > 0 && int(l) < len(threadLevels) {
		return threadLevels[l]
	}
	return fmt.Sprintf("thread level %d", int(l))
}

// setting is one field of Config, its environment variable and its default.
type setting struct {
	field, env string
	set        func(string) error // from the environment
	zero       func()             // make a zero value the default
	value      func() string
}

// settings lists all of them: resolve and Info go by this list, and a test
// compares docs/config.md with it.
func (c *Config) settings() []setting {
	duration := func(field, env string, p *time.Duration, otherwise time.Duration) setting {
		return setting{
			field, env,
			func(s string) (err error) {
				*p, err = time.ParseDuration(s)
				if err == nil && *p < 0 {
					err = fmt.Errorf("%s is negative", s)
				}
				return err
			},
			func() {
				if *p == 0 {
					*p = otherwise
				}
			},
			func() string { return p.String() },
		}
	}
	number := func(field, env string, p *int, otherwise int) setting {
		return setting{
			field, env,
			func(s string) (err error) { *p, err = strconv.Atoi(s); return err },
			func() {
				if *p == 0 {
					*p = otherwise
				}
			},
			func() string { return strconv.Itoa(*p) },
		}
	}
	boolean := func(field, env string, p *bool) setting {
		return setting{
			field, env,
			func(s string) (err error) { *p, err = strconv.ParseBool(s); return err },
			func() {},
			func() string { return strconv.FormatBool(*p) },
		}
	}
	return []setting{
		{
			"MPI", cmpi.EnvMPI,
			func(s string) error { c.MPI = s; return nil },
			func() {},
			func() string { return c.MPI },
		},
		{
			"ThreadLevel", "MPI4GO_THREAD_LEVEL",
			func(s string) error {
				for i, name := range threadLevels[1:] {
					if strings.EqualFold(s, name) {
						c.ThreadLevel = ThreadLevel(i + 1)
						return nil
					}
				}
				return fmt.Errorf("want one of %s", strings.Join(threadLevels[1:], ", "))
			},
			func() {
				if c.ThreadLevel == 0 {
					c.ThreadLevel = ThreadSerialized
				}
			},
			func() string { return c.ThreadLevel.String() },
		},
		boolean("Exclusive", "MPI4GO_EXCLUSIVE", &c.Exclusive),
		number("GOMAXPROCS", "MPI4GO_GOMAXPROCS", &c.GOMAXPROCS, 2),
		number("Spins", "MPI4GO_SPINS", &c.Spins, 200),
		duration("LeadTime", "MPI4GO_LEAD_TIME", &c.LeadTime, 500*time.Microsecond),
		duration("IdleNap", "MPI4GO_IDLE_NAP", &c.IdleNap, 8*time.Millisecond),
		{
			"Doorbell", "MPI4GO_DOORBELL",
			func(s string) error { c.Doorbell = s; return nil },
			func() {
				if c.Doorbell == "" {
					c.Doorbell = doorbellOn
				}
			},
			func() string { return c.Doorbell },
		},
		duration("CancelTimeout", "MPI4GO_CANCEL_TIMEOUT", &c.CancelTimeout, 100*time.Millisecond),
		{
			"Plans", "MPI4GO_PLANS",
			func(s string) error { c.Plans = s; return nil },
			func() {}, // familyDefaults
			func() string { return c.Plans },
		},
		number("MaxFrames", "MPI4GO_MAX_FRAMES", &c.MaxFrames, 1<<20),
		number("MaxHeader", "MPI4GO_MAX_HEADER", &c.MaxHeader, 64<<20),
		number("MaxMessage", "MPI4GO_MAX_MESSAGE", &c.MaxMessage, 1<<40),
		{
			"DeviceMemory", "MPI4GO_DEVICE_MEMORY",
			func(s string) error { c.DeviceMemory = s; return nil },
			func() {
				if c.DeviceMemory == "" {
					c.DeviceMemory = autoDevice
				}
			},
			func() string { return c.DeviceMemory },
		},
		number("StagingLimit", "MPI4GO_STAGING_LIMIT", &c.StagingLimit, 256<<20),
		duration("DrainTimeout", "MPI4GO_DRAIN_TIMEOUT", &c.DrainTimeout, 30*time.Second),
		boolean("Debug", "MPI4GO_DEBUG", &c.Debug),
	}
}

// Setting is one value of [Config] that is in force.
type Setting struct {
	Field  string // of Config
	Env    string // its environment variable
	Value  string
	Source string // "environment", "config" or "default"
}

// familyDefaults fills in what depends on the MPI that was found.
func (c *Config) familyDefaults(family string, inForce []Setting) {
	if c.Plans != "" {
		return
	}
	c.Plans = wire.DefaultPlans(family)
	for i := range inForce {
		if inForce[i].Field == "Plans" {
			inForce[i].Value = c.Plans
		}
	}
}

// resolve puts the environment over the fields and the defaults under them.
func (c *Config) resolve() ([]Setting, error) {
	var inForce []Setting
	var zero Config
	zeros := zero.settings()
	for i, s := range c.settings() {
		source := "config"
		if s.value() == zeros[i].value() {
			source = "default"
		}
		if text := os.Getenv(s.env); text != "" {
			if err := s.set(text); err != nil {
				return nil, fmt.Errorf("environment variable %s=%q: %w", s.env, text, err)
			}
			source = "environment"
		}
		s.zero()
		inForce = append(inForce, Setting{s.field, s.env, s.value(), source})
	}
	if _, err := wire.ParsePlans(c.Plans); err != nil {
		return nil, fmt.Errorf("mpicomm.Config.Plans: %w", err)
	}
	if _, err := parseDeviceMemory(c.DeviceMemory); err != nil {
		return nil, fmt.Errorf("mpicomm.Config.DeviceMemory: %w", err)
	}
	switch {
	case c.StagingLimit < 16<<20 || c.StagingLimit&(c.StagingLimit-1) != 0:
		return nil, fmt.Errorf("mpicomm.Config.StagingLimit: %d bytes: want a power of two of at least 16777216 (16 MiB)", c.StagingLimit)
	case c.MaxFrames < 1 || c.MaxMessage < 1:
		return nil, fmt.Errorf("mpicomm.Config.MaxFrames, MaxMessage: %d frames, %d bytes: want 1 or more", c.MaxFrames, c.MaxMessage)
	case c.MaxHeader < 4096 || c.MaxHeader > math.MaxInt32:
		return nil, fmt.Errorf("mpicomm.Config.MaxHeader: %d bytes: want from 4096 to 2^31-1", c.MaxHeader)
	case !slices.Contains(doorbells, c.Doorbell):
		return nil, fmt.Errorf("mpicomm.Config.Doorbell: %q: want one of %s", c.Doorbell, strings.Join(doorbells, ", "))
	case c.Spins < 1 || c.Spins > 1<<20:
		return nil, fmt.Errorf("mpicomm.Config.Spins: %d is not between 1 and %d", c.Spins, 1<<20)
	case c.ThreadLevel < ThreadFunneled || c.ThreadLevel > ThreadMultiple:
		return nil, fmt.Errorf("mpicomm.Config.ThreadLevel: %v: want funneled, serialized or multiple; a Go program always has several threads", c.ThreadLevel)
	}
	for name, d := range map[string]time.Duration{
		"LeadTime": c.LeadTime, "IdleNap": c.IdleNap, "CancelTimeout": c.CancelTimeout, "DrainTimeout": c.DrainTimeout,
	} {
		if d < 0 {
			return nil, fmt.Errorf("mpicomm.Config.%s: %v is negative", name, d)
		}
	}
	return inForce, nil
}
