package main

import (
	"os"
	"strings"
	"testing"

	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	mpitest.Main(m, mpitest.Ranks(), mpitest.Program("hello", func() error { main(); return nil }))
}

// TestHello runs the program.
func TestHello(t *testing.T) {
	mpitest.EachMPI(t, func(t *testing.T, mpi string) {
		r := mpitest.Job{MPI: mpi, Ranks: 2, Program: "hello"}.Run(t)
		require.Equal(t, 0, r.Code)
		require.Contains(t, r.Output, "rank 1 of 2 got: hello from rank 0")
	})
}

// TestReadme shows that the README's first code sample is this program.
func TestReadme(t *testing.T) {
	program, err := os.ReadFile("main.go")
	require.NoError(t, err)
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	_, sample, found := strings.Cut(string(readme), "```go\n")
	require.True(t, found)
	sample, _, _ = strings.Cut(sample, "```")
	require.Equal(t, string(program), sample)
}
