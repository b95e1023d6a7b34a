"""Images made here are OCI images, the same every time, whose parts fit together."""

import io
import json
import tarfile

from holdfast.lab import oci_image, podman_files


def test_the_same_files_give_the_same_bytes_and_different_ones_do_not() -> None:
    one = oci_image.layer({"bin/x": b"x"}, {"bin/y": "x"}, ["bin", "tmp"])
    assert one == oci_image.layer({"bin/x": b"x"}, {"bin/y": "x"}, ["bin", "tmp"])
    assert one != oci_image.layer({"bin/x": b"z"}, {"bin/y": "x"}, ["bin", "tmp"])
    with tarfile.open(fileobj=io.BytesIO(one)) as archive:
        members = {member.name: member for member in archive}
    assert members["bin/x"].mode == 0o755 and members["bin/y"].linkname == "x" and members["tmp"].mode == 0o1777


def test_manifest_and_configuration_name_every_layer_by_digest() -> None:
    layers = [b"one", b"two"]
    made = oci_image.image("hello", "2", layers, ["/bin/hello"], {"V": "2"})
    manifest = json.loads(made.manifest)
    config = json.loads(made.blobs[0])
    digests = [oci_image.digest(layer) for layer in layers]
    assert [layer["digest"] for layer in manifest["layers"]] == digests == config["rootfs"]["diff_ids"]
    assert manifest["config"]["digest"] == oci_image.digest(made.blobs[0])
    assert [layer["size"] for layer in manifest["layers"]] == [3, 3]
    assert config["config"]["Entrypoint"] == ["/bin/hello"] and "V=2" in config["config"]["Env"]
    assert made.blobs[1:] == (b"one", b"two")


def test_podman_in_a_node_trusts_the_lab_s_registry_without_tls_and_no_other() -> None:
    import tomllib

    texts = podman_files.files("100.64.7.1:5000")
    registries = tomllib.loads(texts["registries.conf"])
    assert registries["registry"] == [{"location": "100.64.7.1:5000", "insecure": True}]
    assert tomllib.loads(texts["containers.conf"])["network"]["network_backend"] == "netavark"
    assert {name.rpartition("/")[2] for name in podman_files.variables().values()} <= set(texts)
