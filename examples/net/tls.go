package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net/http"
	"time"

	"github.com/mpi4go/mpi4go/mpicomm"
	"github.com/mpi4go/mpi4go/transport"
)

// serveTLS serves HTTP over TLS. The certificate signs itself, and the clients get it
// by a plain message: the job's own network is what they trust.
func serveTLS(ctx context.Context) error {
	cert, err := selfSigned("server")
	if err != nil {
		return err
	}
	l, err := transport.Listen(ctx, address("tls"), transport.Config{})
	if err != nil {
		return err
	}
	for client := 1; client < mpicomm.World().Size(); client++ {
		if err := send(ctx, client, cert.Certificate[0]); err != nil {
			return err
		}
	}
	config := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13}
	return serveUpper(ctx, tls.NewListener(l.NetListener(), config))
}

func callTLS(ctx context.Context) error {
	der, err := receive(ctx)
	if err != nil {
		return err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	way := &http.Transport{
		DialContext:     dialContext("tls"),
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13},
	}
	if err := post(ctx, way, "https://server/"); err != nil {
		return err
	}
	return clientsDone(ctx)
}

// selfSigned makes a certificate for a name.
func selfSigned(name string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}
