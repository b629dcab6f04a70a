// Package authority reads the certificates that a client trusts.
package authority

import (
	"crypto/x509"
	"fmt"
	"os"
)

// Read returns the authorities in a PEM file.
func Read(path string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s: expected certificates in PEM, found none", path)
	}
	return roots, nil
}
