package mpicomm_test

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/mpi4go/mpi4go/coro"
	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/mpicomm"
	"github.com/stretchr/testify/require"
)

// programHello initialises, says what it found, sends around a ring, and
// finalises.
func programHello() error {
	if err := mpicomm.Init(mpicomm.Config{}); err != nil {
		return err
	}
	info, err := mpicomm.Info()
	if err != nil {
		return err
	}
	fmt.Print(info)
	if err := exchange(mpicomm.World()); err != nil {
		return err
	}
	fmt.Println("hello from", mpicomm.World())
	return mpicomm.Finalize()
}

// exchange sends around a ring.
func exchange(c *mpicomm.Comm) error {
	next, previous := ring(c)
	buf := make([]byte, 1000)
	status, err := coro.Sendrecv(background, c, pattern(1000, c.Rank()), next, 1, buf, previous, 1)
	if err == nil && (status.Count != 1000 || string(buf) != string(pattern(1000, previous))) {
		err = errors.New("wrong message")
	}
	return err
}

// calls makes every call that needs an initialised library.
func calls() map[string]error {
	errs := map[string]error{}
	_, errs["Info"] = mpicomm.Info()
	errs["Exclusive"] = mpicomm.Exclusive(func() { panic("not allowed") })
	errs["Finalize"] = mpicomm.Finalize()
	var c *mpicomm.Comm
	if world != nil {
		c = world
	}
	_, errs["Isend"] = c.Isend(mem.Buffer{}, 0, 0)
	_, errs["Irecv"] = c.Irecv(mem.Buffer{}, 0, 0)
	_, errs["Dup"] = c.Dup(background)
	_, _, errs["Iprobe"] = c.Iprobe(0, 0)
	_, errs["Mprobe"] = c.Mprobe(background, 0, 0)
	errs["Send"] = coro.Send(background, c, []byte{1}, 0, 0)
	_, errs["Recv"] = coro.Recv(background, c, []byte{1}, 0, 0)
	_, _, errs["RecvAlloc"] = coro.RecvAlloc[byte](background, c, 0, 0)
	_, errs["Post"] = mpicomm.Post(c.SendOp(mem.Buffer{}, 0, 0))
	return errs
}

// world is the communicator that a program keeps beyond Finalize.
var world *mpicomm.Comm

func programBeforeInit() error {
	for call, err := range calls() {
		if !errors.Is(err, mpicomm.ErrNotInitialized) {
			return fmt.Errorf("%s: %w", call, err)
		}
	}
	if mpicomm.Initialized() {
		return errors.New("initialised")
	}
	defer func() { fmt.Println("World:", recover()) }()
	mpicomm.World()
	return errors.New("World before Init does not panic")
}

func TestBeforeInit(t *testing.T) {
	mpitest.Alone(t)
	r := mpitest.Job{Program: "before init"}.Run(t)
	require.Equal(t, 0, r.Code)
	require.Contains(t, r.Output, "World: mpicomm.World: mpi4go is not initialised: call mpicomm.Init first")
}

func programAfterFinalize() error {
	if err := mpicomm.Init(mpicomm.Config{}); err != nil {
		return err
	}
	world = mpicomm.World()
	request, err := world.Irecv(mem.Of(make([]byte, 1)), world.Rank(), 0)
	if err != nil {
		return err
	}
	if err := coro.Send(background, world, []byte{7}, world.Rank(), 0); err != nil {
		return err
	}
	if _, err := request.Wait(background); err != nil {
		return err
	}
	if err := mpicomm.Finalize(); err != nil {
		return err
	}
	for call, err := range calls() {
		if !errors.Is(err, mpicomm.ErrFinalized) {
			return fmt.Errorf("%s: %w", call, err)
		}
	}
	if _, err := request.Wait(background); err != nil { // it is done, and needs no MPI
		return err
	}
	if err := request.Cancel(); !errors.Is(err, mpicomm.ErrFinalized) {
		return fmt.Errorf("Cancel: %w", err)
	}
	if err := mpicomm.Init(mpicomm.Config{}); !errors.Is(err, mpicomm.ErrFinalized) {
		return fmt.Errorf("Init: %w", err)
	}
	if mpicomm.Initialized() {
		return errors.New("initialised")
	}
	fmt.Println("all calls failed as they should")
	return nil
}

func TestAfterFinalize(t *testing.T) {
	mpitest.EachMPI(t, func(t *testing.T, mpi string) {
		r := mpitest.Job{MPI: mpi, Ranks: 2, Program: "after finalize"}.Run(t)
		require.Equal(t, 0, r.Code)
		require.Contains(t, r.Output, "all calls failed as they should")
	})
}

// TestSingleton runs without a launcher: a job of one rank.
func TestSingleton(t *testing.T) {
	mpitest.EachMPI(t, func(t *testing.T, mpi string) {
		r := mpitest.Job{Program: "hello", Env: []string{mpicomm.EnvMPI + "=" + mpi}}.Run(t)
		require.Equal(t, 0, r.Code)
		require.Contains(t, r.Output, "hello from world(0 of 1)")
		require.Contains(t, r.Output, fmt.Sprintf("explicit choice %q", mpi))
	})
}

// programProcs begins as a launcher that binds to one core makes it.
func programProcs() error {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(1)
	}
	if err := mpicomm.Init(mpicomm.Config{}); err != nil {
		return err
	}
	info, err := mpicomm.Info()
	if err != nil {
		return err
	}
	fmt.Printf("now %d: %s\n", runtime.GOMAXPROCS(0), info.GOMAXPROCS)
	return mpicomm.Finalize()
}

// TestProcsRaised shows that Init raises GOMAXPROCS from 1, unless the user has
// chosen it.
func TestProcsRaised(t *testing.T) {
	mpitest.EachMPI(t, func(t *testing.T, mpi string) {
		for _, test := range []struct{ env, want string }{
			{"GOMAXPROCS=", "now 2: 2, raised from 1"},
			{"GOMAXPROCS=1", "now 1: 1, from the environment"},
			{"MPI4GO_GOMAXPROCS=3", "now 3: 3, raised from 1"},
			{"MPI4GO_GOMAXPROCS=-1", "now 1: 1\n"},
		} {
			r := mpitest.Job{Program: "procs", Env: []string{mpicomm.EnvMPI + "=" + mpi, test.env}}.Run(t)
			require.Equal(t, 0, r.Code, test.env)
			require.Contains(t, r.Output, test.want, test.env)
		}
	})
}

// programTwoTries fails to initialise and then does better.
func programTwoTries() error {
	if err := mpicomm.Init(mpicomm.Config{MPI: "/nonexistent/libmpi.so"}); err == nil {
		return errors.New("found an MPI that is not there")
	}
	if err := mpicomm.Init(mpicomm.Config{Spins: -1}); err == nil {
		return errors.New("accepted a negative number of spins")
	}
	if mpicomm.Initialized() {
		return errors.New("initialised")
	}
	return programHello()
}

// TestInitAfterFailure shows that Init may be called again when it failed before
// anything of MPI happened.
func TestInitAfterFailure(t *testing.T) {
	mpitest.EachMPI(t, func(t *testing.T, mpi string) {
		r := mpitest.Job{MPI: mpi, Ranks: 2, Program: "two tries", Env: []string{mpicomm.EnvMPI + "="}}.Run(t)
		require.Equal(t, 0, r.Code)
		require.Contains(t, r.Output, "hello from world(1 of 2)")
	})
}

// TestThreadLevels runs with each thread level that can work, and is told about
// one that cannot.
func TestThreadLevels(t *testing.T) {
	mpitest.EachMPI(t, func(t *testing.T, mpi string) {
		for _, level := range []string{"funneled", "serialized", "multiple"} {
			r := mpitest.Job{MPI: mpi, Ranks: 2, Program: "hello", Env: []string{"MPI4GO_THREAD_LEVEL=" + level}}.Run(t)
			require.Equal(t, 0, r.Code, level)
			require.Contains(t, r.Output, "hello from world(1 of 2)")
			require.Regexp(t, `thread level +`+level, r.Output)
		}
		r := mpitest.Job{MPI: mpi, Ranks: 2, Program: "hello", Env: []string{"MPI4GO_THREAD_LEVEL=single"}}.Run(t)
		require.NotEqual(t, 0, r.Code)
		require.False(t, r.TimedOut)
		require.Contains(t, r.Output, "want funneled, serialized or multiple; a Go program always has several threads")
	})
}
