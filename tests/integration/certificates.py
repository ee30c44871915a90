"""Certificates and keys for tests, made by the openssl program when they are needed.

    authority = Authority(folder, "ca")
    server = authority.issue("server")                  # server.certificate, server.key
    client = authority.issue("client", use="client")
    context = authority.client_context(client)          # of a client that trusts the authority
"""

import pathlib
import ssl
import subprocess

CONFIG = """
[req]
distinguished_name = name
[name]
[authority]
basicConstraints = critical,CA:TRUE
keyUsage = critical,keyCertSign,cRLSign
subjectKeyIdentifier = hash
[server]
subjectAltName = %s
extendedKeyUsage = serverAuth
[client]
extendedKeyUsage = clientAuth
"""


class Files:
    def __init__(self, folder, name):
        self.certificate = pathlib.Path(folder) / f"{name}.pem"
        self.key = pathlib.Path(folder) / f"{name}.key"


class Authority:
    """Its servers have these subject alternative names."""

    def __init__(self, folder, name, servers="IP:127.0.0.1,DNS:localhost"):
        self.folder = pathlib.Path(folder)
        self.config = self.folder / "openssl.cnf"
        self.config.write_text(CONFIG % servers)
        self.files = Files(folder, name)
        self._make(self.files, name, "authority")

    @property
    def certificate(self):
        return self.files.certificate

    def issue(self, name, use="server"):
        files = Files(self.folder, name)
        self._make(files, name, use, "-CA", self.files.certificate, "-CAkey", self.files.key)
        return files

    def client_context(self, own=None):
        context = ssl.create_default_context(cafile=self.certificate)
        if own:
            context.load_cert_chain(own.certificate, own.key)
        return context

    def _make(self, files, name, use, *signer):
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc", "-days", "1",
             "-config", self.config, "-extensions", use, "-subj", f"/CN={name}", "-keyout", files.key, "-out",
             files.certificate, *signer],
            check=True, capture_output=True)
