// Csr sends a sparse matrix in CSR form, three arrays, as one message; the other
// side multiplies it by a vector and sends the product back. Run it with
// mpirun -n 2.
package main

import (
	"context"
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

func receive(ctx context.Context, c *mpicomm.Comm, source, tag int) (*matrix, error) {
	var m matrix
	_, err := coro.RecvMessageAlloc(ctx, c, source, tag, func(in coro.Incoming) ([]mem.Buffer, error) {
		if len(in.Frames) != 3 {
			return nil, fmt.Errorf("a matrix has 3 buffers, not %d", len(in.Frames))
		}
		m = matrix{array[int32](in.Frames[0]), array[int32](in.Frames[1]), array[float64](in.Frames[2])}
		return m.frames()
	})
	return &m, err
}

func array[T mem.Element](f coro.FrameInfo) []T { return make([]T, f.Len/int(unsafe.Sizeof(*new(T)))) }

func run(ctx context.Context, world *mpicomm.Comm) error {
	const tag, n = 1, 1000
	switch world.Rank() {
	case 0:
		frames, err := laplace(n).frames()
		if err != nil {
			return err
		}
		if err := coro.SendMessage(ctx, world, frames, 1, tag); err != nil {
			return err
		}
		product := make([]float64, n)
		if _, err := coro.Recv(ctx, world, product, 1, tag); err != nil {
			return err
		}
		fmt.Println("the second difference of squares:", product[1:4], "...")
	case 1:
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

func main() {
	if err := mpicomm.Init(mpicomm.Config{}); err != nil {
		log.Fatal(err)
	}
	if err := run(context.Background(), mpicomm.World()); err != nil {
		log.Print(err)
		mpicomm.Abort(1)
	}
	if err := mpicomm.Finalize(); err != nil {
		log.Fatal(err)
	}
}
