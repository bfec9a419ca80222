package main

import (
	"testing"

	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	options := []mpitest.Option{mpitest.Ranks()}
	for name, p := range programs {
		options = append(options, mpitest.Program(name, func() error { return run(p) }))
	}
	mpitest.Main(m, options...)
}

// TestExample runs the programs between two ranks.
func TestExample(t *testing.T) {
	for name, lines := range map[string][]string{
		"http": {"http: 200 OK: HELLO from mpi://1"},
		"tls":  {"https: 200 OK: HELLO from mpi://1"},
		"grpc": {"grpc: the square of 12 is 144", "grpc: 1000 sums, the last is 500500"},
	} {
		t.Run(name, func(t *testing.T) {
			mpitest.EachMPI(t, func(t *testing.T, mpi string) {
				r := mpitest.Job{MPI: mpi, Ranks: 2, Program: name}.Run(t)
				require.Equal(t, 0, r.Code, r.Output)
				for _, line := range lines {
					require.Contains(t, r.Output, line)
				}
			})
		})
	}
}
