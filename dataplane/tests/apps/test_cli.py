# SPDX-License-Identifier: Apache-2.0
"""Command lines: help, version, errors that name the option, exit codes 0, 1 and 2."""
import os
import subprocess

from bed import Bed, ip, main, program

PROGRAMS = {"bobtail-router": ["--address=" + ip(1)], "bobtail-serve": ["--address=" + ip(1)],
            "bobtail-load": ["--target=" + ip(1)]}


def run(name, *options, timeout=20):
    return subprocess.run([program(name), *options], capture_output=True, text=True, timeout=timeout)


class CommandLine(Bed):
    def test_help_and_version_go_to_stdout(self):
        for name in PROGRAMS:
            p = run(name, "--help")
            self.assertEqual((p.returncode, p.stderr), (0, ""))
            self.assertIn("Usage: " + name, p.stdout)
            self.assertIn("Exit status: 0", p.stdout)
            p = run(name, "--version")
            self.assertEqual(p.returncode, 0)
            self.assertRegex(p.stdout, "^%s \\d+\\.\\d+\\.\\d+\n$" % name)

    def test_help_shows_every_option_with_its_default(self):
        out = run("bobtail-load", "--help").stdout
        for text in ("--rate=", "(default 1000)", "--timeout=", "(default 2s)", "poisson|fixed", "(default poisson)"):
            self.assertIn(text, out)

    def usage_error(self, name, option, *options):
        p = run(name, *options)
        self.assertEqual(p.returncode, 2, (options, p.stderr))
        self.assertIn(option, p.stderr, options)
        self.assertIn("--help", p.stderr)
        self.assertEqual(p.stdout, "")

    def test_what_is_wrong_is_named(self):
        for name, needed in PROGRAMS.items():
            self.usage_error(name, "nonsense", *needed, "--nonsense=1")
            self.usage_error(name, "file.txt", *needed, "file.txt")
            self.usage_error(name, needed[0].split("=")[0])
            self.usage_error(name, "--log", *needed, "--log=xml")
            for value in ("", "575", "1501", "9000", "1400x", "-1", "automatic"):
                self.usage_error(name, "--mtu: must be auto or a whole number 576..1500", *needed, "--mtu=" + value)
            self.usage_error(name, "ctl", *needed, "--ctl")
        a = "--address=" + ip(1)
        for option, value in (("request-port", "0"), ("request-port", "65536"), ("request-port", "-1"),
                              ("request-port", "80x"), ("request-port", ""), ("idle", "nap"),
                              ("drain-quiet", "5"), ("drain-quiet", "5 s"), ("drain-quiet", "-1s"),
                              ("drain-seconds", "3601"), ("address", "localhost"), ("address", "0.0.0.0"),
                              ("address", "::"), ("address", "224.0.0.1"), ("address", "1.2.3.4:5")):
            self.usage_error("bobtail-router", "--" + option, a, "--%s=%s" % (option, value))
        self.usage_error("bobtail-router", "--feedback-port", a, "--feedback-port=8000")
        for option, value in (("workers", "0"), ("workers", "65"), ("service-time", "5ms"),
                              ("service-time", "fixed:-1ms"), ("service-time", "exp"), ("service-time", "exp:1ms:2"),
                              ("service-time", "bimodal:1ms:5ms:101"), ("service-time", "lognormal:1ms"),
                              ("service-time", "fixed:1h"), ("occupy", "burn"), ("reply-bytes", "x"),
                              ("reply-bytes", "1048577"), ("routers", "1.2.3.4:0"), ("routers", "router"),
                              ("queue-depth", "65"), ("address", "")):
            self.usage_error("bobtail-serve", "--" + option, a, "--%s=%s" % (option, value))
        self.usage_error("bobtail-serve", "--workers", a, "--port=65535", "--workers=2")
        t = "--target=" + ip(1)
        for option, value in (("rate", "0"), ("rate", "fast"), ("rate", "1e9"), ("duration", "10"), ("target", ""),
                              ("target", "a:0"), ("target", "a:b"), ("target", "a,,b"), ("target", "[::1"),
                              ("connections", "257"), ("arrivals", "uniform"), ("timeout", "0"),
                              ("request-bytes", "2000000"), ("port-base", "64000"), ("output", "xml")):
            self.usage_error("bobtail-load", "--" + option, t, "--%s=%s" % (option, value))

    def test_options_of_a_driver_that_was_not_chosen_are_refused(self):
        for name, needed in PROGRAMS.items():
            for option, value in (("port", "net_memif0"), ("prefix", "16"), ("gateway", ip(2)), ("queues", "2"),
                                  ("buffers", "4096"), ("checksums", "none"), ("hugepages", "off"), ("memory", "64"),
                                  ("link-wait", "5s"), ("eal", "--no-huge")):
                self.usage_error(name, "--dpdk-%s: needs --driver=dpdk" % option, *needed,
                                 "--dpdk-%s=%s" % (option, value))

    def failure(self, text, name, *options):
        p = run(name, *options)
        self.assertEqual(p.returncode, 1, p.stderr)
        self.assertIn(text, p.stderr)

    def test_an_address_may_stand_in_a_file(self):
        file = os.path.join(self.dir, "address")
        for name, named in (("bobtail-router", "--feedback-port: must differ"), ("bobtail-serve", "--driver=dpdk")):
            rest = ["--feedback-port=8000"] if name == "bobtail-router" else ["--dpdk-buffers=4096"]
            with open(file, "w") as f:
                f.write(ip(1) + "\n")
            self.usage_error(name, named, "--address=@" + file, *rest)  # it was taken, and what is wrong is another option
            self.usage_error(name, "--address: cannot read \"%s.no\": No such file" % file, "--address=@%s.no" % file)
            for text in ("", "\n", ip(1) + "\n" + ip(2) + "\n", "1" * 256, "1\0002"):
                with open(file, "w") as f:
                    f.write(text)
                self.usage_error(name, "--address: \"%s\" must hold one line of 1..255 characters" % file, "--address=@" + file)
            with open(file, "w") as f:
                f.write("localhost")
            self.usage_error(name, "--address: must be the IP address", "--address=@" + file)

    def test_failures_at_start_exit_with_1_and_say_why(self):
        a = "--address=" + ip(1)
        sock = "--ctl=" + self.path("x.sock")
        self.failure("192.0.2.1:8000", "bobtail-router", "--address=192.0.2.1", sock)
        self.failure("create its folder", "bobtail-router", a, "--ctl=/nonexistent/x.sock")
        self.failure("/nonexistent.json", "bobtail-router", a, sock, "--config=/nonexistent.json")
        bad = self.document([1], [2], workerQueueDepth=65)
        for name in ("bobtail-router", "bobtail-serve"):
            self.failure("service.workerQueueDepth: must be 1..64; got 65", name, a, sock,
                         "--config=" + self.write_document(bad))
        self.failure("--key-dir", "bobtail-router", a, sock, "--config=" + self.write_document(self.document([1], [2])))
        self.failure("keyIds[0]", "bobtail-router", a, sock, "--key-dir=" + self.dir,
                     "--config=" + self.write_document(self.document([1], [2])))
        self.start_server(1)
        self.ctl("server-1")
        self.failure("another process", "bobtail-serve", a, sock)
        self.assertFalse(os.path.exists(self.path("x.sock")))

    def test_load_without_an_answer_exits_with_1(self):
        self.failure("no request was answered", "bobtail-load", "--target=" + ip(9), "--duration=300ms", "--warmup=0",
                     "--rate=500", "--timeout=200ms")  # of a Poisson process with six requests one in 400 has none
        self.failure("no.such.name.invalid", "bobtail-load", "--target=no.such.name.invalid", "--resolve-patience=0")

    def test_load_that_cannot_write_or_open_exits_with_1(self):
        t = "--target=" + ip(9)
        self.failure("--slice-output=/nonexistent/x: No such file", "bobtail-load", t, "--slice-output=/nonexistent/x")
        self.failure("--outcome-log=/nonexistent/x: No such file", "bobtail-load", t, "--outcome-log=/nonexistent/x")
        self.failure("create its folder", "bobtail-load", t, "--ctl=/nonexistent/x.sock")
        self.failure("192.0.2.1:", "bobtail-load", t, "--address=192.0.2.1")
        self.start_server(1)
        self.ctl("server-1")
        load = ["--target=" + ip(1), "--duration=200ms", "--warmup=0", "--rate=200", "--arrivals=fixed", "--timeout=20s"]
        self.failure("--outcome-log=/dev/full: could not be written whole", "bobtail-load", *load, "--outcome-log=/dev/full")
        p = run("bobtail-load", *load, timeout=60)  # the same that can
        self.assertEqual(p.returncode, 0, p.stderr)
        self.assertRegex(p.stdout, r"\Aoffered              39   \(200.0/s for 0.2 s\)\nsent                 39\n")
        self.assertRegex(p.stdout, r"\n%s:8000 +39 " % ip(1).replace(".", r"\."))

    def test_ports_that_the_kernel_gives_to_anybody_are_warned_of(self):
        with open("/proc/sys/net/ipv4/ip_local_port_range") as f:
            low, high = map(int, f.read().split())
        for base, warned in ((low - 4096, False), (low - 4095, True), (high, True), (high + 1, False)):
            if 1024 <= base <= 65535 - 4095:
                p = run("bobtail-load", "--target=no.such.name.invalid", "--resolve-patience=0", "--port-base=%d" % base)
                said = "--port-base=%d lies in the kernel's ephemeral range %d..%d" % (base, low, high)
                self.assertEqual(said in p.stderr, warned, (base, p.stderr))

    def test_json_logs_are_json(self):
        import json
        self.start_router(1, "--log=json")
        self.ctl("router-1")
        self.terminate("router-1")
        with open(self.path("router-1.log")) as f:
            lines = [json.loads(line) for line in f]
        self.assertTrue(any("requests on" in line["message"] for line in lines))
        self.assertTrue(all(line["program"] == "bobtail-router" for line in lines))


if __name__ == "__main__":
    main()
