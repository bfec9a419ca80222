package coro_test

import (
	"testing"

	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/mpi4go/mpi4go/mpicomm"
)

func TestMain(m *testing.M) {
	mpitest.Main(m,
		mpitest.Program("corrupt", programCorrupt),
		mpitest.Program("example", func() error { Example(); return nil }),
		mpitest.Program("examples", programExamples),
	)
}

// ring is the ranks on both sides of this one.
func ring(c *mpicomm.Comm) (next, previous int) {
	return (c.Rank() + 1) % c.Size(), (c.Rank() + c.Size() - 1) % c.Size()
}
