package redisproc

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"
)

const (
	caFile   = "ca.pem"
	certFile = "server.pem"
	keyFile  = "server-key.pem"
)

// authority signs the certificates of all servers of this process, so that one pool of roots
// serves a client of many of them.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

var theAuthority = sync.OnceValues(newAuthority)

// CertPool returns the roots that a client needs to trust the server. They are the same for all
// servers of one process.
func (s *Server) CertPool() *x509.CertPool {
	ca, err := theAuthority()
	if err != nil {
		s.fail("redisproc: make a certificate authority: %v", err)
		return nil
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	return pool
}

// CAFile is the path of the same roots as a PEM file, empty without [WithTLS].
func (s *Server) CAFile() string {
	if !s.conf.tls {
		return ""
	}
	return filepath.Join(s.dir, caFile)
}

func newAuthority() (*authority, error) {
	template := certificate("redisproc test authority")
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &authority{cert: cert, key: key}, err
}

// writeCertificates puts a fresh key and certificate for loopback, and the root, into dir.
func writeCertificates(dir string) error {
	ca, err := theAuthority()
	if err != nil {
		return err
	}
	key, err := newKey()
	if err != nil {
		return err
	}
	template := certificate("localhost")
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	template.DNSNames = []string{"localhost"}
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	cert, err := x509.CreateCertificate(rand.Reader, template, ca.cert, &key.PublicKey, ca.key)
	if err != nil {
		return err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return writePEMs(dir, map[string]*pem.Block{
		caFile:   {Type: "CERTIFICATE", Bytes: ca.cert.Raw},
		certFile: {Type: "CERTIFICATE", Bytes: cert},
		keyFile:  {Type: "PRIVATE KEY", Bytes: keyDER},
	})
}

func writePEMs(dir string, blocks map[string]*pem.Block) error {
	for name, block := range blocks {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			return err
		}
	}
	return nil
}

func newKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

// certificate is what root and server have in common. The hour before now is for servers whose
// clock a test has set back a little.
func certificate(name string) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(24 * time.Hour),
	}
}
