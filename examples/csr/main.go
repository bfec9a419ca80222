// Csr sends a sparse matrix in CSR form, three arrays, as one message; the other
// side multiplies it by a vector and sends the product back. Run it with
// mpirun -n 2. With -gpu the large arrays are in the memory of a GPU (gpu.go).
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"unsafe"

	"github.com/mpi4go/mpi4go/coro"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/mpicomm"
)

// matrix is compressed by rows: those of row i are from rows[i] to rows[i+1] in
// columns and values.
type matrix struct {
	rows, columns []int32
	values        []float64
}

func (m *matrix) frames() ([]mem.Buffer, error) { return mem.Frames(m.rows, m.columns, m.values) }

// times is the product with a vector.
func (m *matrix) times(v []float64) []float64 {
	product := make([]float64, len(m.rows)-1)
	for i := range product {
		for j := m.rows[i]; j < m.rows[i+1]; j++ {
			product[i] += m.values[j] * v[m.columns[j]]
		}
	}
	return product
}

// laplace is the matrix of a second difference on n points.
func laplace(n int) *matrix {
	m := &matrix{rows: []int32{0}}
	for i := range n {
		for j := max(i-1, 0); j <= min(i+1, n-1); j++ {
			m.columns = append(m.columns, int32(j))
			value := -1.0
			if i == j {
				value = 2
			}
			m.values = append(m.values, value)
		}
		m.rows = append(m.rows, int32(len(m.columns)))
	}
	return m
}

func send(ctx context.Context, c *mpicomm.Comm, m *matrix, dest, tag int) error {
	frames, err := m.frames()
	if err != nil {
		return err
	}
	return coro.SendMessage(ctx, c, frames, dest, tag)
}

func receive(ctx context.Context, c *mpicomm.Comm, source, tag int) (*matrix, error) {
	var m matrix
	_, err := coro.RecvMessageAlloc(ctx, c, source, tag, m.alloc)
	return &m, err
}

// alloc makes the arrays for a message.
func (m *matrix) alloc(in coro.Incoming) ([]mem.Buffer, error) {
	if len(in.Frames) != 3 {
		return nil, fmt.Errorf("a matrix has 3 buffers, not %d", len(in.Frames))
	}
	*m = matrix{array[int32](in.Frames[0]), array[int32](in.Frames[1]), array[float64](in.Frames[2])}
	return m.frames()
}

func array[T mem.Element](f coro.FrameInfo) []T { return make([]T, f.Len/int(unsafe.Sizeof(*new(T)))) }

// run sends on rank 0 and multiplies on rank 1. The device may be nil.
func run(ctx context.Context, world *mpicomm.Comm, d *device) error {
	const tag, n = 1, 1000
	switch world.Rank() {
	case 0:
		send := send
		if d != nil {
			send = d.send
		}
		if err := send(ctx, world, laplace(n), 1, tag); err != nil {
			return err
		}
		product := make([]float64, n)
		if _, err := coro.Recv(ctx, world, product, 1, tag); err != nil {
			return err
		}
		fmt.Println("the second difference of squares:", product[1:4], "...")
	case 1:
		receive := receive
		if d != nil {
			receive = d.receive
		}
		m, err := receive(ctx, world, 0, tag)
		if err != nil {
			return err
		}
		squares := make([]float64, n)
		for i := range squares {
			squares[i] = float64(i * i)
		}
		return coro.Send(ctx, world, m.times(squares), 0, tag)
	}
	return nil
}

var onGPU = flag.Bool("gpu", false, "keep the large arrays in the memory of a GPU")

func main() {
	flag.Parse()
	var d *device
	if *onGPU { // before MPI is initialised, which takes over the GPU that is open then
		var err error
		if d, err = openDevice(); err != nil {
			log.Fatal(err)
		}
	}
	if err := mpicomm.Init(mpicomm.Config{}); err != nil {
		log.Fatal(err)
	}
	if err := run(context.Background(), mpicomm.World(), d); err != nil {
		log.Print(err)
		mpicomm.Abort(1)
	}
	if err := mpicomm.Finalize(); err != nil {
		log.Fatal(err)
	}
	if d != nil {
		if err := d.close(); err != nil {
			log.Fatal(err)
		}
	}
}
