"""A node's issuer is nobody's authority but the fleet's: strangers do not believe what it signs (M-27)."""

import subprocess
from pathlib import Path

import pytest

from holdfast.adapters.certificates import x509
from holdfast.adapters.certificates.files import X509Certificates
from holdfast.adapters.disk.posix import PosixDisk
from holdfast.model.certificate import Constraints

NOW_S = 1_760_000_000.0
NAME = "w1.nodes.svc.lab.test"


@pytest.mark.parametrize("told", [False, True], ids=["the system's authorities", "the fleet's bundle"])
def test_only_who_was_given_the_bundle_believes_a_node(told: bool, tmp_path: Path) -> None:
    """M-27: a certificate that was issued by mistake harms clients of this fleet, and no browser in the world."""
    real = X509Certificates(str(tmp_path / "agent"), PosixDisk())
    (tmp_path / "issuer.pem").write_text(x509.pem_of(real.issuer("w1", Constraints(("svc.lab.test",)), NOW_S)))
    (tmp_path / "leaf.pem").write_bytes(real.serving((NAME,), NOW_S).chain)
    whom = ["-CAfile", str(tmp_path / "issuer.pem"), "-no-CApath"] if told else []
    said = subprocess.run(
        ["openssl", "verify", "-attime", str(int(NOW_S)), "-purpose", "sslserver", "-verify_hostname", NAME, *whom,
         str(tmp_path / "leaf.pem")],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (said.returncode == 0) is told, said.stdout + said.stderr
    if not told:
        assert "unable to get local issuer certificate" in said.stderr
