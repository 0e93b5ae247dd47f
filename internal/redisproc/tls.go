package redisproc

import (
	"crypto/x509"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
)

const (
	certFile = "server.pem"
	keyFile  = "server-key.pem"
)

// testServer has the certificate that all servers use: the certificate of the test servers of Go, for loopback and
// example.com, which has signed itself. So one pool of roots serves a client of many servers.
var testServer = sync.OnceValue(func() *httptest.Server {
	s := httptest.NewTLSServer(nil)
	s.Close()
	return s
})

// CertPool returns the roots that a client needs to trust the server. They are the same for all servers.
func (s *Server) CertPool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(testServer().Certificate())
	return pool
}

// CAFile is the path of the same roots as a PEM file, empty without [WithTLS].
func (s *Server) CAFile() string {
	if !s.conf.tls {
		return ""
	}
	return filepath.Join(s.dir, certFile)
}

func writeCertificates(dir string) error {
	pair := testServer().TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		return err
	}
	for name, block := range map[string]*pem.Block{
		certFile: {Type: "CERTIFICATE", Bytes: pair.Certificate[0]},
		keyFile:  {Type: "PRIVATE KEY", Bytes: key},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			return err
		}
	}
	return nil
}
