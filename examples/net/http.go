package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/mpi4go/mpi4go/transport"
)

// serveHTTP serves HTTP until the clients have ended.
func serveHTTP(ctx context.Context) error {
	l, err := transport.Listen(ctx, address("http"), transport.Config{})
	if err != nil {
		return err
	}
	return serveUpper(ctx, l.NetListener())
}

// serveUpper answers with the body of a request in upper case.
func serveUpper(ctx context.Context, l net.Listener) error {
	s := &http.Server{
		ReadHeaderTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			fmt.Fprintf(w, "%s from %s", strings.ToUpper(string(body)), r.RemoteAddr)
		}),
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	if err := clientsDone(ctx); err != nil {
		return err
	}
	if err := s.Shutdown(ctx); err != nil {
		return err
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// callHTTP is a client. Its URLs name the server as they like: the dialer knows the
// rank.
func callHTTP(ctx context.Context) error {
	way := &http.Transport{DialContext: dialContext("http")}
	if err := post(ctx, way, "http://server/"); err != nil {
		return err
	}
	return clientsDone(ctx)
}

// dialContext is the dialer of a http.Transport.
func dialContext(service string) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		return transport.DialNet(ctx, address(service), transport.Config{})
	}
}

// post makes a request and prints the answer.
func post(ctx context.Context, way *http.Transport, url string) error {
	defer way.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("hello"))
	if err != nil {
		return err
	}
	response, err := (&http.Client{Transport: way}).Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %s: %s\n", request.URL.Scheme, response.Status, answer)
	return nil
}
