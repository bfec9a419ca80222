package transport_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/mpi4go/mpi4go/coro"
	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/mpi4go/mpi4go/transport"
	"github.com/stretchr/testify/require"
)

// certificate is one that signs itself, for the name "rank0".
func certificate(t *testing.T) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"rank0"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// TestHTTP runs net/http, plain and over crypto/tls, between two ranks.
func TestHTTP(t *testing.T) {
	c := mpitest.Pair(t)
	ctx := mpitest.Context(t)
	for _, scheme := range []string{"http", "https"} {
		if c.Rank() == 0 {
			l := listen(t, scheme, transport.Config{}).NetListener()
			var root []byte
			if scheme == "https" {
				cert := certificate(t)
				root = cert.Certificate[0]
				l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13})
			}
			require.NoError(t, coro.Send(ctx, c, root, 1, 1))
			server := &http.Server{
				ReadHeaderTimeout: 10 * time.Second,
				Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("From", r.RemoteAddr)
					body, err := io.ReadAll(r.Body)
					if err != nil {
						http.Error(w, err.Error(), http.StatusBadRequest)
						return
					}
					_, _ = w.Write(body) // an echo
				}),
			}
			done := make(chan error, 1)
			go func() { done <- server.Serve(l) }()
			mpitest.Sync(t)
			require.NoError(t, server.Shutdown(ctx))
			require.ErrorIs(t, <-done, http.ErrServerClosed)
			continue
		}
		root, _, err := coro.RecvAlloc[byte](ctx, c, 0, 1)
		require.NoError(t, err)
		pool := x509.NewCertPool()
		if len(root) > 0 {
			cert, err := x509.ParseCertificate(root)
			require.NoError(t, err)
			pool.AddCert(cert)
		}
		way := &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return transport.DialNet(ctx, "mpi://0/"+scheme, transport.Config{})
			},
			TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13},
		}
		client := &http.Client{Transport: way}
		require.NoError(t, coro.Run(ctx, func(g *coro.Group) error {
			for i := range 8 {
				g.Go(func(ctx context.Context) error {
					for _, size := range []int{0, 1, 5000, 1 << 20} {
						body := bytes.Repeat([]byte{byte(i)}, size)
						request, err := http.NewRequestWithContext(ctx, http.MethodPost, scheme+"://rank0/echo", bytes.NewReader(body))
						if err != nil {
							return err
						}
						response, err := client.Do(request)
						if err != nil {
							return err
						}
						got, err := io.ReadAll(response.Body)
						_ = response.Body.Close()
						if err != nil {
							return err
						}
						if !bytes.Equal(body, got) || response.Header.Get("From") != "mpi://1" {
							return fmt.Errorf("%d bytes: %d came back from %q", size, len(got), response.Header.Get("From"))
						}
					}
					return nil
				})
			}
			return nil
		}))
		way.CloseIdleConnections()
		mpitest.Sync(t)
	}
}
