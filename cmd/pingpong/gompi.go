//go:build gompi

package main

import (
	"math"
	"time"

	mpi "github.com/sbromberger/gompi"

	"github.com/mpi4go/mpi4go/mpicomm"
)

// withGompi tells whether gompi is measured too.
const withGompi = true

// gompi times a ping-pong by gompi's blocking calls, which have no empty messages
// and a count of int.
func (l *latency) gompi() pass {
	if l.send.bytes == nil || l.recv.bytes == nil || l.send.len() == 0 || l.send.len() > math.MaxInt32 {
		return nil
	}
	return func() (us float64, err error) {
		err = mpicomm.Exclusive(func() {
			world := mpi.NewCommunicator(nil)
			var start time.Time
			for i := -l.warmup; i < l.iterations; i++ {
				if i == 0 {
					start = time.Now()
				}
				if l.starts {
					world.SendBytes(l.send.bytes, l.peer, tagGompi)
					world.RecvPreallocBytes(l.recv.bytes, l.peer, tagGompi)
				} else {
					world.RecvPreallocBytes(l.recv.bytes, l.peer, tagGompi)
					world.SendBytes(l.send.bytes, l.peer, tagGompi)
				}
			}
			us = usPer(time.Since(start), 2*l.iterations)
		})
		return us, err
	}
}
