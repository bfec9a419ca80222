//go:build gompi

package main

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpi4go/mpi4go/coro"
	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/mpi4go/mpi4go/mpicomm"
	mpi "github.com/sbromberger/gompi"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	if os.Getenv("MPI4GO_TEST_MPIS") != "none" {
		os.Setenv("MPI4GO_TEST_MPIS", "openmpi") // this binary is linked with it
	}
	mpitest.Main(m,
		mpitest.Ranks(2),
		mpitest.Program("heat", func() error { main(); return nil }),
		mpitest.Program("multiple", func() error { return together(false) }),
		mpitest.Program("exclusive", func() error { return together(true) }),
		mpitest.Program("ours", programOurs),
		mpitest.Program("not threaded", programNotThreaded),
		mpitest.Program("stop first", programStopFirst),
		mpitest.Program("nil", programNil),
	)
}

var background = context.Background()

// TestMigrationPage shows that docs/from-gompi.md has every exported name of gompi.
func TestMigrationPage(t *testing.T) {
	mpitest.Alone(t)
	page, err := os.ReadFile("../../docs/from-gompi.md")
	require.NoError(t, err)
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/sbromberger/gompi").Output()
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "*.go"))
	require.NoError(t, err)
	names := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			var found []*ast.Ident
			switch n := n.(type) {
			case *ast.FuncDecl:
				found = []*ast.Ident{n.Name}
			case *ast.TypeSpec:
				found = []*ast.Ident{n.Name}
			case *ast.ValueSpec:
				found = n.Names
			case *ast.StructType:
				for _, field := range n.Fields.List {
					found = append(found, field.Names...)
				}
			case *ast.BlockStmt: // what is local has no name outside
				return false
			}
			for _, id := range found {
				if id.IsExported() {
					names++
					require.Contains(t, string(page), "`"+id.Name+"`")
				}
			}
			return true
		})
	}
	require.Greater(t, names, 100)
}

// TestHeat runs the example.
func TestHeat(t *testing.T) {
	mpitest.EachMPI(t, func(t *testing.T, mpi string) {
		for _, ranks := range []int{1, 2, 3} {
			r := mpitest.Job{MPI: mpi, Ranks: ranks, Program: "heat"}.Run(t)
			require.Equal(t, 0, r.Code)
			require.Contains(t, r.Output, fmt.Sprintf("%d ranks: 1000000 in all, 39", ranks))
		}
	})
}

// together makes calls of gompi's in one goroutine, inside Exclusive if asked,
// while others exchange messages of ours.
func together(exclusive bool) error {
	if exclusive { // mpi.Start(false) would leave MPI_THREAD_SINGLE otherwise
		os.Setenv("OMPI_MPI_THREAD_LEVEL", "2")
	}
	mpi.Start(!exclusive)
	if err := mpicomm.Init(mpicomm.Config{Exclusive: exclusive}); err != nil {
		return err
	}
	if err := mix(exclusive); err != nil {
		return err
	}
	if err := mpicomm.Finalize(); err != nil {
		return err
	}
	err := collectives(mpi.NewCommunicator(nil)) // gompi is still there
	mpi.Stop()
	return err
}

// mix is the part of together between Init and Finalize.
func mix(exclusive bool) error {
	info, err := mpicomm.Info()
	if err != nil {
		return err
	}
	world := mpi.NewCommunicator(nil)
	dup, err := mpicomm.World().Dup(background)
	if err != nil {
		return err
	}
	next, previous := (dup.Rank()+1)%dup.Size(), (dup.Rank()+dup.Size()-1)%dup.Size()
	err = coro.Run(background, func(g *coro.Group) error {
		g.Go(func(context.Context) (err error) {
			for range 200 {
				call := func() { err = collectives(world) }
				if exclusive {
					if err := mpicomm.Exclusive(call); err != nil {
						return err
					}
				} else {
					call()
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		for tag := range 10 {
			g.Go(func(ctx context.Context) error {
				for round := range 100 {
					n := 1 + tag*round*100
					buf := make([]byte, n)
					if _, err := coro.Sendrecv(ctx, dup, []byte(strings.Repeat(string(rune('a'+tag)), n)), next, tag, buf, previous, tag); err != nil {
						return err
					}
					if string(buf) != strings.Repeat(string(rune('a'+tag)), n) {
						return fmt.Errorf("tag %d: wrong message of %d bytes", tag, n)
					}
				}
				return nil
			})
		}
		return nil
	})
	fmt.Printf("rank %d of %d mixed, thread level %v\n", dup.Rank(), dup.Size(), info.ThreadLevel)
	return err
}

// collectives are calls of gompi's on its world, and a message to the next rank.
func collectives(world *mpi.Communicator) error {
	rank, size := world.Rank(), world.Size()
	sum := make([]float64, 1)
	if err := world.AllreduceFloat64s(sum, []float64{float64(rank)}, mpi.OpSum, 0); err != nil {
		return err
	}
	numbers := []int64{int64(rank), 7}
	world.BcastInt64s(numbers, size-1)
	world.Barrier()
	text := []byte{byte(rank)}
	if rank%2 == 0 && rank+1 < size {
		world.SendBytes(text, rank+1, 3)
	} else if rank%2 == 1 {
		world.RecvPreallocBytes(text, rank-1, 3)
	}
	if want := float64(size * (size - 1) / 2); sum[0] != want || numbers[0] != int64(size-1) || int(text[0]) != rank/2*2 {
		return fmt.Errorf("sum %v, numbers %v, text %v", sum, numbers, text)
	}
	return nil
}

func TestTogether(t *testing.T) {
	mpitest.EachMPI(t, func(t *testing.T, mpi string) {
		for program, level := range map[string]string{"multiple": "multiple", "exclusive": "serialized", "ours": "multiple"} {
			r := mpitest.Job{MPI: mpi, Ranks: 3, Program: program}.Run(t)
			require.Equal(t, 0, r.Code)
			for rank := range 3 {
				require.Contains(t, r.Output, fmt.Sprintf("rank %d of 3 mixed, thread level %s", rank, level))
			}
		}
	})
}

// programOurs leaves initialising and finalising to us.
func programOurs() error {
	if err := mpicomm.Init(mpicomm.Config{ThreadLevel: mpicomm.ThreadMultiple}); err != nil {
		return err
	}
	if !mpi.IsOn() {
		return errors.New("gompi sees another MPI")
	}
	if err := mix(false); err != nil {
		return err
	}
	return mpicomm.Finalize()
}

func programNotThreaded() error {
	mpi.Start(false)
	fmt.Println("Init:", mpicomm.Init(mpicomm.Config{Exclusive: true}))
	mpi.Stop()
	return nil
}

// TestNotThreaded shows the error after mpi.Start(false).
func TestNotThreaded(t *testing.T) {
	mpitest.EachMPI(t, func(t *testing.T, mpi string) {
		r := mpitest.Job{MPI: mpi, Ranks: 2, Program: "not threaded"}.Run(t)
		require.Equal(t, 0, r.Code)
		require.Contains(t, r.Output, "with the thread level single")
		require.Contains(t, r.Output, "in gompi: mpi.Start(true)")
	})
}

func programStopFirst() error {
	mpi.Start(true)
	if err := mpicomm.Init(mpicomm.Config{}); err != nil {
		return err
	}
	waiting := make(chan error)
	go func() {
		_, err := coro.Recv(background, mpicomm.World(), make([]byte, 1), mpicomm.AnySource, 1)
		waiting <- err
	}()
	mpi.Stop()
	fmt.Println("Recv:", <-waiting)
	fmt.Println("Finalize:", mpicomm.Finalize())
	return nil
}

// TestStopFirst shows the errors where mpi.Stop comes before Finalize.
func TestStopFirst(t *testing.T) {
	mpitest.EachMPI(t, func(t *testing.T, mpi string) {
		r := mpitest.Job{MPI: mpi, Ranks: 2, Program: "stop first"}.Run(t)
		require.Equal(t, 0, r.Code)
		require.NotContains(t, r.Output, "Recv: <nil>")
		require.Contains(t, r.Output, "call mpicomm.Finalize before that (in gompi: before mpi.Stop)")
	})
}

// programNil recovers from a nil dereference after gompi has initialised MPI.
func programNil() error {
	os.Setenv("UCX_ERROR_SIGNALS", "") // as docs/from-gompi.md says
	mpi.Start(true)
	if err := mpicomm.Init(mpicomm.Config{}); err != nil {
		return err
	}
	func() {
		defer func() { fmt.Println("recovered:", recover()) }()
		var p *struct{ field int }
		p.field++
	}()
	if err := mpicomm.Finalize(); err != nil {
		return err
	}
	mpi.Stop()
	return nil
}

// TestNilDereference runs over UCX, which takes signals.
func TestNilDereference(t *testing.T) {
	mpitest.EachMPI(t, func(t *testing.T, mpi string) {
		r := mpitest.Job{MPI: mpi, Ranks: 2, Program: "nil", Env: []string{
			"OMPI_MCA_pml=ucx", "OMPI_MCA_pml_ucx_tls=any", "OMPI_MCA_pml_ucx_devices=any",
		}}.Run(t)
		require.Equal(t, 0, r.Code)
		require.Contains(t, r.Output, "recovered: runtime error: invalid memory address or nil pointer dereference")
	})
}
