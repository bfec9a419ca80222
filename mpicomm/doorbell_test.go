package mpicomm_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/mpicomm"
	"github.com/stretchr/testify/require"
)

// programDoorbell has rank 1 wait for a message of each kind, long enough for its
// driver to sleep: for 8 s, unless a bell rings. Each has to come much earlier.
func programDoorbell() error {
	if err := mpicomm.Init(mpicomm.Config{IdleNap: 2 * time.Second}); err != nil {
		return err
	}
	info, err := mpicomm.Info()
	if err != nil {
		return err
	}
	fmt.Println("doorbell", info.Doorbell)
	world := mpicomm.World()
	reversed, err := world.Split(background, 0, -world.Rank())
	if err != nil {
		return err
	}
	handle, err := reversed.Fortran()
	if err != nil {
		return err
	}
	unknown, err := mpicomm.FromFortran(handle)
	if err != nil {
		return err
	}
	for _, kind := range []struct {
		name string
		run  func(first bool) error
	}{
		{"short send", toSleeper(world, 1, 10, do)},
		{"send", toSleeper(world, 1, 5000, do)},
		{"long send", toSleeper(world, 1, 8<<20, do)},
		{"synchronous send", toSleeper(world, 1, 10, func(c *mpicomm.Comm, b mem.Buffer, peer int) error {
			_, err := mpicomm.Do(background, c.SsendOp(b, peer, 1))
			return err
		})},
		{"set", toSleeper(world, 1, 5000, func(c *mpicomm.Comm, b mem.Buffer, peer int) error {
			_, err := mpicomm.DoAll(background, nil, c.SendOp(b, peer, 1), c.SendOp(b, peer, 2))
			return err
		})},
		{"other ranks", toSleeper(reversed, 0, 10, do)},
		{"unknown ranks", toSleeper(unknown, 0, 10, do)},
		{"barrier", func(bool) error { return world.Barrier(background) }},
		{"broadcast", func(bool) error { return mpicomm.Bcast(background, world, make([]byte, 100), 0) }},
		{"dup", func(bool) error { _, err := world.Dup(background); return err }},
	} {
		if err := world.Barrier(background); err != nil {
			return err
		}
		if world.Rank() == 0 {
			time.Sleep(100 * time.Millisecond)
		}
		start := time.Now()
		if err := kind.run(world.Rank() == 0); err != nil {
			return fmt.Errorf("%s: %w", kind.name, err)
		}
		if took := time.Since(start); took > 2*time.Second {
			return fmt.Errorf("%s: it took %v", kind.name, took)
		}
	}
	if err := mpicomm.Finalize(); err != nil {
		return err
	}
	if open := openBells(); open > 0 {
		return fmt.Errorf("%d files of the doorbell are open after Finalize", open)
	}
	fmt.Println("all awake")
	return nil
}

// toSleeper sends rank 0's message to a rank of a communicator, which receives it.
func toSleeper(c *mpicomm.Comm, peer, n int, send func(*mpicomm.Comm, mem.Buffer, int) error) func(bool) error {
	return func(first bool) error {
		if first {
			return send(c, mem.Of(make([]byte, n)), peer)
		}
		_, err := mpicomm.Do(background, c.RecvOp(mem.Of(make([]byte, n)), mpicomm.AnySource, mpicomm.AnyTag))
		for err == nil { // the rest of a set
			var found bool
			if _, found, err = c.Iprobe(mpicomm.AnySource, 2); !found {
				break
			}
			_, err = mpicomm.Do(background, c.RecvOp(mem.Of(make([]byte, n)), mpicomm.AnySource, 2))
		}
		return err
	}
}

func do(c *mpicomm.Comm, b mem.Buffer, peer int) error {
	_, err := mpicomm.Do(background, c.SendOp(b, peer, 1))
	return err
}

// openBells counts the open files of the doorbell in this process.
func openBells() (n int) {
	files, _ := filepath.Glob("/proc/self/fd/*")
	for _, file := range files {
		if target, _ := os.Readlink(file); strings.Contains(target, "mpi4go-bells") {
			n++
		}
	}
	return n
}

// TestDoorbell shows that a message of any kind wakes a process that sleeps.
func TestDoorbell(t *testing.T) {
	mpitest.EachMPI(t, func(t *testing.T, mpi string) {
		r := mpitest.Job{MPI: mpi, Ranks: 2, Program: "doorbell", Env: []string{"MPI4GO_DOORBELL="}}.Run(t)
		require.Equal(t, 0, r.Code, r.Output)
		require.Equal(t, 2, strings.Count(r.Output, "doorbell between all 2 ranks"), r.Output)
		require.Equal(t, 2, strings.Count(r.Output, "all awake"), r.Output)
	})
}

// programDoorbellFlood has rank 0 ring all the time, and rank 1 wait.
func programDoorbellFlood() error {
	config := mpicomm.Config{}
	if strings.HasSuffix(os.Getenv("OMPI_COMM_WORLD_RANK")+os.Getenv("PMI_RANK"), "0") {
		config.Doorbell = "flood"
	}
	if err := mpicomm.Init(config); err != nil {
		return err
	}
	c := mpicomm.World()
	if c.Rank() == 1 {
		ctx, cancel := context.WithTimeout(background, 2*time.Second)
		defer cancel()
		before := mpicomm.Polls()
		_, err := mpicomm.Do(ctx, c.RecvOp(mem.Of(make([]byte, 1)), 0, 1))
		if !errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("a bell without a message: %w", err)
		}
		if polls := mpicomm.Polls() - before; polls > 20_000 { // three a bell that is heard, and 1 ms deaf
			return fmt.Errorf("%d polls in 2 s", polls)
		}
		fmt.Println("not disturbed")
	}
	return mpicomm.Finalize()
}

// TestDoorbellFlood shows that bells without a message cost little. That messages
// arrive all the same shows the configuration mpich-flood of mpitest.
func TestDoorbellFlood(t *testing.T) {
	mpitest.EachMPI(t, func(t *testing.T, mpi string) {
		r := mpitest.Job{MPI: mpi, Ranks: 2, Program: "doorbell, flood", Env: []string{"MPI4GO_DOORBELL="}}.Run(t)
		require.Equal(t, 0, r.Code, r.Output)
		require.Contains(t, r.Output, "not disturbed")
	})
}

// TestDoorbellOff shows that it can be done without, and that Info says so.
func TestDoorbellOff(t *testing.T) {
	mpitest.EachMPI(t, func(t *testing.T, mpi string) {
		for _, test := range []struct {
			ranks     int
			env, want string
		}{
			{2, "MPI4GO_DOORBELL=off", "none: Config.Doorbell is off"},
			{1, "MPI4GO_DOORBELL=", "none: no other rank on this host"},
		} {
			r := mpitest.Job{MPI: mpi, Ranks: test.ranks, Program: "hello", Env: []string{test.env}}.Run(t)
			require.Equal(t, 0, r.Code, r.Output)
			require.Regexp(t, "doorbell +"+test.want, r.Output)
		}
	})
}
