package mpicomm_test

import (
	"os"
	ossignal "os/signal"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/stretchr/testify/require"
)

// TestNilDereference shows that after Init a nil dereference, a division by
// zero and the like are still panics that can be recovered from: UCX, which is
// also inside MPICH, would replace the handlers that make them so.
func TestNilDereference(t *testing.T) {
	comm := mpitest.Comm(t)
	next, previous := ring(comm)
	for i := range 10 {
		require.PanicsWithError(t, "runtime error: invalid memory address or nil pointer dereference", func() {
			var p *struct{ field int }
			p.field++
		})
		require.PanicsWithError(t, "runtime error: integer divide by zero", func() {
			zero := min(len(os.Args), 0)
			runtime.KeepAlive(1 / zero)
		})
		receiving := irecv(t, comm, make([]byte, 5000), previous, i)
		sending := isend(t, comm, make([]byte, 5000), next, i)
		wait(t, receiving)
		wait(t, sending)
	}
}

// TestSignals sends signals to the process while its goroutines are busy, in
// and out of C. MPICH handles SIGUSR1 by itself, and a handler that did not use
// the alternate stack would crash the process.
func TestSignals(t *testing.T) {
	comm := mpitest.Comm(t)
	for _, sig := range []syscall.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGHUP, syscall.SIGWINCH} {
		received := make(chan os.Signal, 1)
		ossignal.Notify(received, sig) // for good: one that comes late would end the process
		next, previous := ring(comm)
		for range 100 {
			require.NoError(t, syscall.Kill(os.Getpid(), sig))
			receiving := irecv(t, comm, make([]byte, 300), previous, int(sig))
			sending := isend(t, comm, make([]byte, 300), next, int(sig))
			wait(t, receiving)
			wait(t, sending)
		}
		select {
		case <-received:
		case <-time.After(5 * time.Second):
			t.Errorf("%v: signal.Notify does not see it", sig)
		}
	}
}
