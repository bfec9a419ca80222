// Scheduler hands out jobs to workers and collects their results, which are messages
// of many frames, over connections. Rank 0 is the scheduler, all others are workers.
// Run it with mpirun -n 3.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"sync"

	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/mpicomm"
	"github.com/mpi4go/mpi4go/transport"
)

const (
	service = "jobs"
	jobs    = 40
	parts   = 16 // frames of a result, besides its number
)

func main() {
	if err := mpicomm.Init(mpicomm.Config{}); err != nil {
		log.Fatal(err)
	}
	work := worker
	if mpicomm.World().Rank() == 0 {
		work = schedule
	}
	if err := work(context.Background()); err != nil {
		log.Print(err)
		mpicomm.Abort(1)
	}
	if err := mpicomm.Finalize(); err != nil {
		log.Fatal(err)
	}
}

// schedule gives every worker a job, and another with each result, until none is left.
func schedule(ctx context.Context) error {
	l, err := transport.Listen(ctx, "mpi://*/"+service, transport.Config{})
	if err != nil {
		return err
	}
	defer l.Close()
	todo := make(chan int64, jobs)
	for job := range int64(jobs) {
		todo <- job
	}
	close(todo)

	var sum float64
	var done, failed int
	var mu sync.Mutex
	var workers sync.WaitGroup
	for range mpicomm.World().Size() - 1 {
		conn, err := l.Accept(ctx)
		if err != nil {
			return err
		}
		workers.Go(func() {
			defer conn.Close() // the worker's next receive says that there is no more to do
			for job := range todo {
				part, err := ask(ctx, conn, job)
				mu.Lock()
				if err != nil {
					failed++
					log.Printf("job %d on %v: %v", job, conn.PeerAddr(), err)
				} else {
					done++
					sum += part
				}
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	workers.Wait()
	if failed > 0 || done != jobs {
		return fmt.Errorf("%d of %d jobs are done, %d have failed", done, jobs, failed)
	}
	fmt.Printf("%d jobs on %d workers: sum %.0f\n", done, mpicomm.World().Size()-1, sum)
	return nil
}

// ask has a worker do a job, and adds up the frames of its result.
func ask(ctx context.Context, conn *transport.Conn, job int64) (float64, error) {
	if err := conn.SendMessage(ctx, []mem.Buffer{mem.Of([]int64{job})}); err != nil {
		return 0, err
	}
	number, result := make([]int64, 1), make([][]float64, parts)
	frames := []mem.Buffer{mem.Of(number)}
	for i := range result {
		result[i] = make([]float64, length(job, i))
		frames = append(frames, mem.Of(result[i]))
	}
	if err := conn.RecvMessageInto(ctx, frames); err != nil {
		return 0, err
	}
	if number[0] != job {
		return 0, fmt.Errorf("the result of job %d came", number[0])
	}
	sum := 0.0
	for _, part := range result {
		for _, x := range part {
			sum += x
		}
	}
	return sum, nil
}

// length is that of a part of a job's result.
func length(job int64, part int) int { return int(job)*100 + part }

// worker does the jobs that come until the scheduler closes the connection.
func worker(ctx context.Context) error {
	conn, err := transport.Dial(ctx, "mpi://0/"+service, transport.Config{})
	if err != nil {
		return err
	}
	defer conn.Close()
	for {
		job := make([]int64, 1)
		err := conn.RecvMessageInto(ctx, []mem.Buffer{mem.Of(job)})
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		frames := []mem.Buffer{mem.Of(job)}
		for i := range parts {
			part := make([]float64, length(job[0], i))
			for j := range part {
				part[j] = 1
			}
			frames = append(frames, mem.Of(part))
		}
		if err := conn.SendMessage(ctx, frames); err != nil {
			return err
		}
	}
}
