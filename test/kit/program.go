package kit

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// WriteKubeconfig writes a file by which a program reaches the API server as config does: with its token, certificate
// and impersonation. The namespace is that of commands which name none.
func WriteKubeconfig(path string, config *rest.Config, namespace string) error {
	file := clientcmdapi.NewConfig()
	file.Clusters["c"] = &clientcmdapi.Cluster{
		Server: config.Host, CertificateAuthority: config.CAFile,
		CertificateAuthorityData: config.CAData,
	}
	file.AuthInfos["c"] = &clientcmdapi.AuthInfo{
		Token: config.BearerToken, ClientCertificateData: config.CertData, ClientKeyData: config.KeyData,
		Impersonate: config.Impersonate.UserName, ImpersonateGroups: config.Impersonate.Groups,
	}
	file.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "c", Namespace: namespace}
	file.CurrentContext = "c"
	if err := clientcmd.WriteToFile(*file, path); err != nil {
		return fmt.Errorf("writing a kubeconfig: %w", err)
	}
	return nil
}

// Run starts a program that finds the API server by a kubeconfig of config. The
// returned function asks it to end and waits until it did, without an error; what
// runs when the test ends is killed. What it said is printed if the test fails.
func (s *Env) Run(binary string, config *rest.Config, args ...string) (end func()) {
	s.Helper()
	kubeconfig := filepath.Join(s.TempDir(), "kubeconfig")
	s.Must(WriteKubeconfig(kubeconfig, config, s.Namespace), "starting "+filepath.Base(binary))
	var log bytes.Buffer
	command := exec.Command(binary, args...)
	command.Env = []string{"KUBECONFIG=" + kubeconfig, "PATH=" + os.Getenv("PATH")}
	command.Stdout, command.Stderr = &log, &log
	s.Must(command.Start(), "starting "+binary)
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	s.Cleanup(func() {
		_ = command.Process.Kill()
		<-ended
		if s.Failed() {
			s.Logf("%s said:\n%s", filepath.Base(binary), log.String())
		}
	})
	return func() {
		s.Helper()
		s.Must(command.Process.Signal(syscall.SIGTERM), "ending "+binary)
		select {
		case err := <-ended:
			ended <- err
			s.Must(err, filepath.Base(binary)+" ended")
		case <-time.After(s.Patience):
			s.Fatalf("%s does not end", filepath.Base(binary))
		}
	}
}
