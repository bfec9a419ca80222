package main

import (
	"testing"

	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	mpitest.Main(m, mpitest.Ranks(), mpitest.Program("scheduler", func() error { main(); return nil }))
}

// TestExample runs the program.
func TestExample(t *testing.T) {
	mpitest.EachMPI(t, func(t *testing.T, mpi string) {
		r := mpitest.Job{MPI: mpi, Ranks: 3, Program: "scheduler"}.Run(t)
		require.Equal(t, 0, r.Code, r.Output)
		require.Contains(t, r.Output, "40 jobs on 2 workers: sum 1252800")
	})
}
