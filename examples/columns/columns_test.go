package main

import (
	"testing"

	"github.com/mpi4go/mpi4go/internal/cudasim"
	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	mpitest.Main(m, mpitest.Ranks(), mpitest.Environment(cudasim.Use), mpitest.Program("columns", func() error { main(); return nil }))
}

// TestExample runs the program, with host memory and with that of a GPU.
func TestExample(t *testing.T) {
	mpitest.EachMPI(t, example)
}

// TestCUDA is TestExample over an MPI that takes device memory.
func TestCUDA(t *testing.T) {
	mpitest.EachCUDA(t, example)
}

func example(t *testing.T, mpi string) {
	for _, args := range [][]string{nil, {"-gpu"}} {
		r := mpitest.Job{MPI: mpi, Ranks: 2, Program: "columns", Args: args}.Run(t)
		require.Equal(t, 0, r.Code, r.Output)
		require.Contains(t, r.Output, "?: 12 people on 0.5 km2")
	}
}
