package doctor

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/node"
)

// TestCertificates: each reason to refuse a certificate has a remedy of its own. The errors are those of real handshakes.
func TestCertificates(t *testing.T) {
	here, elsewhere := []net.IP{net.IPv4(127, 0, 0, 1)}, []net.IP{net.IPv4(10, 0, 0, 1)}
	for name, c := range map[string]struct {
		addresses []net.IP
		// from and until are the certificate's dates, from now on.
		from, until time.Duration
		untrusted   bool
		clients     tls.ClientAuthType
		do          string
	}{
		"expired":               {here, -2 * time.Hour, -time.Hour, false, tls.NoClientCert, "Renew the server's certificate"},
		"not valid yet":         {here, time.Hour, 2 * time.Hour, false, tls.NoClientCert, "correct the clock of this machine"},
		"for another address":   {elsewhere, -time.Hour, time.Hour, false, tls.NoClientCert, "Use a host name in the address that is in the certificate"},
		"for no address at all": {nil, -time.Hour, time.Hour, false, tls.NoClientCert, "subject alternative name"},
		"of an unknown CA":      {here, -time.Hour, time.Hour, true, tls.NoClientCert, "$SSL_CERT_FILE"},
		"for clients too":       {here, -time.Hour, time.Hour, false, tls.RequireAnyClientCert, "tls-auth-clients"},
	} {
		t.Run(name, func(t *testing.T) {
			key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
			require.NoError(t, err)
			template := &x509.Certificate{
				SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(c.from), NotAfter: time.Now().Add(c.until), IPAddresses: c.addresses,
				IsCA: true, BasicConstraintsValid: true,
			}
			signed, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
			require.NoError(t, err)
			pool := x509.NewCertPool()
			if !c.untrusted {
				certificate, err := x509.ParseCertificate(signed)
				require.NoError(t, err)
				pool.AddCert(certificate)
			}
			server := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{signed}, PrivateKey: key}}, ClientAuth: c.clients}
			address := redisproc.Serve(t, func(client net.Conn) {
				_, _ = io.Copy(io.Discard, tls.Server(client, server))
			}).Addr()
			f := Examine(t.Context(), Config{Limits: limits, Timeout: time.Second, Patience: 5 * time.Second, Nodes: []node.Options{{
				Addresses: []string{address}, TLS: &tls.Config{RootCAs: pool},
			}}})
			found := worse(f.Report(), "reachable")
			require.NotEmpty(t, found)
			assert.Contains(t, found[0].Do, c.do, found[0].Found)
		})
	}
}
