"""Completions in the shells themselves, and manual pages by man."""
import shutil
import subprocess
import unittest

from brigade_process import COMMAND, DEADLINE, CommandTest, run


def output(*arguments):
    result = run(*arguments)
    if result.returncode != 0:
        raise AssertionError(result.stderr)
    return result.stdout


class Completion(CommandTest):
    def shell(self, *command, text=None):
        if shutil.which(command[0]) is None:
            self.skipTest(f"{command[0]} is not installed")
        result = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, input=text, cwd=self.folder)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout.split()

    def in_bash(self, *words):
        """What bash offers for the last word."""
        script = output("completion", "bash") + '\nCOMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _brigade; printf "%s\\n" "${COMPREPLY[@]}"'
        return self.shell("bash", "-c", script, "bash", "brigade", *words)

    def test_bash(self):
        self.assertEqual(self.in_bash("tr"), ["train"])
        self.assertIn("launch", self.in_bash(""))
        self.assertEqual(self.in_bash("train", "--model-d"), ["--model-dir"])
        self.assertIn("--status-port", self.in_bash("launch", "--st"))
        self.assertNotIn("--model-dir", self.in_bash("launch", "--"))
        self.assertEqual(self.in_bash("data", ""), ["stats"])
        self.assertIn("--map-threads", self.in_bash("data", "stats", "--map"))
        self.assertEqual(sorted(self.in_bash("train", "--resume", "")), ["auto", "never"])
        self.assertEqual(self.in_bash("train", "--checkpoint-writers", "=", "c"), ["chief"])
        self.assertEqual(self.in_bash("train", "--model-dir", ""), [])  # left to bash: files
        self.assertIn("true", self.in_bash("launch", "-n", "2", "--", "tru"))

    def test_zsh(self):
        script = output("completion", "zsh")
        self.shell("zsh", "-n", "-c", script)
        # compadd works in a completion only: here it shows what it gets
        stub = "compdef() { :; }; _files() { print files; }; compadd() { shift; print -l -- $@; }\n"
        ask = lambda *words: self.shell("zsh", "-c", stub + script + f'\nwords=({" ".join(words)}); CURRENT={len(words)}; _brigade')
        self.assertIn("train", ask("brigade", "tr"))
        self.assertIn("--model-dir", ask("brigade", "train", "--mo"))
        self.assertIn("never", ask("brigade", "train", "--resume", "n"))
        self.assertEqual(ask("brigade", "train", "--model-dir", "x"), ["files"])

    def test_fish(self):
        path = self.folder / "brigade.fish"
        path.write_text(output("completion", "fish"))
        ask = lambda line: [each for each in self.shell("fish", "--no-config", "-c", f"source {path}; complete -C '{line}'")]
        self.assertIn("train", ask("brigade tr"))
        self.assertIn("--model-dir", ask("brigade train --model-d"))
        self.assertIn("never", ask("brigade train --resume n"))

    def test_a_shell_that_is_not_known(self):
        self.refuse("completion", "tcsh", saying=["tcsh", "bash, zsh, fish"])


class Manual(CommandTest):
    def test_pages_say_what_the_help_says(self):
        page = output("help", "train", "--man")
        self.assertTrue(page.startswith(".TH BRIGADE\\-TRAIN 1 "), page[:80])
        self.assertIn("\\fB\\-\\-model\\-dir\\fR", page)
        for command in (["train"], ["data", "stats"], []):
            self.assertEqual(output("help", *command), output(*command, "--help"))
        self.assertIn(".SH COMMANDS", output("help", "--man"))
        self.assertIn("brigade\\-data\\-stats", output("help", "data", "stats", "--man"))
        self.assertIn("\\fB\\-n\\fR, \\fB\\-\\-nproc\\fR", output("help", "launch", "--man"))
        self.refuse("help", "trian", saying=["did you mean 'train'?"])

    def test_man_shows_them_without_complaint(self):
        if shutil.which("groff") is None:
            self.skipTest("groff is not installed (Debian: man-db)")
        for command in ([], ["train"], ["launch"], ["report"]):
            shown = subprocess.run(["groff", "-man", "-Tutf8", "-ww"], input=output("help", *command, "--man"), capture_output=True,
                                   text=True, timeout=DEADLINE)
            self.assertEqual((shown.returncode, shown.stderr), (0, ""))
            self.assertIn("SIGTERM: saved, restart me", shown.stdout)


if __name__ == "__main__":
    unittest.main()
