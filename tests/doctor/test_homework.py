"""Handing out and grading with one command each: real files, real processes."""

import hashlib
import subprocess
import sys

import pytest
import submissions
from notebook_page import ROOT

from utils.doctor.homework import command as commands, grade, programs

PHRASE = "tea at five"
CLASS = [f"student {n}" for n in range(40)]


def command(*arguments):
    """Run ``python -m utils.doctor.homework``; return (exit status, stdout, stderr)."""
    done = subprocess.run([sys.executable, "-m", "utils.doctor.homework", *map(str, arguments)],
                          cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def phrase_file(folder, phrase=PHRASE):
    """Return the path of a file with a phrase."""
    path = folder / "phrase"
    path.write_text(f"{phrase}\n", encoding="utf-8")
    return path


def filled(path, probe, diagnosis):
    """Fill in a file as a student does: a diagnosis, and a probe with what it needs."""
    text = path.read_text(encoding="utf-8")
    stub = text[text.index("def probe"):text.index("if __name__")]
    body = probe[len(submissions.HEAD):]
    path.write_text(text.replace(stub, body + "\n\n").replace(
        'DIAGNOSIS = ""', f"DIAGNOSIS = {diagnosis!r}"), encoding="utf-8")


@pytest.mark.slow
def test_a_class_goes_home_and_comes_back(tmp_path):
    names = tmp_path / "class.txt"
    names.write_text("Ada Lovelace\nBen Okafor\n\nÉmile Zola\nDora\n", encoding="utf-8")
    folder = tmp_path / "out"
    phrase = phrase_file(tmp_path)
    hand_out = ("hand-out", "--phrase-file", phrase, "--students", names, "--to", folder)
    assert command(*hand_out) == (0, f"wrote 4 files to {folder}\n", "")
    ada, ben, dora, emile = (folder / f"{name}.py" for name in (
        "Ada_Lovelace", "Ben_Okafor", "Dora", "Émile_Zola"))

    status, out, error = command(*hand_out)  # again: no work is overwritten
    assert (status, out) == (2, "")
    assert error.startswith("wrote no file, because these exist already: Ada_Lovelace.py, ")

    faults = {path: programs.chosen(grade.fields(path)["PROGRAM"]).fault
              for path in (ada, ben, emile, dora)}
    assert len(set(faults.values())) == 4
    number = grade.fields(ben)["PROGRAM"]
    assert command("reveal", number)[1].startswith(f"program {number}: {faults[ben]}")

    filled(ada, submissions.THOROUGH, faults[ada])
    filled(ben, submissions.UNMASKED, "no causal mask")
    filled(emile, submissions.ALL, "")
    emile.write_text(emile.read_text("utf-8").replace(
        f"PROGRAM = {grade.fields(emile)['PROGRAM']}", f"PROGRAM = {number}"), "utf-8")
    (folder / "notes.txt").write_text("not a submission")
    out = commands.main(["grade", "--phrase-file", str(phrase), str(folder), "--csv"])
    assert len(out.splitlines()) == 1 + 4
    rows = {row.split(",")[1]: row.split(",") for row in out.splitlines()[1:]}
    assert rows["Ada Lovelace"][3:] == ["100", "100%", "0%", "right", ""]
    assert rows["Ben Okafor"][3:7] == ["62", "62%", "0%", "wrong"]
    assert rows["Ben Okafor"][7] == "misses 6 faults"
    assert rows["Émile Zola"][3:7] == ["0", "100%", "100%", ""]
    assert rows["Émile Zola"][7].startswith(f"program {number} was not given to 'Émile Zola'")
    assert rows["Dora"][3] == "0"
    assert rows["Dora"][7].startswith("raises NotImplementedError")

    practice = command("grade", ada)[1].splitlines()
    assert practice[0].split() == [*grade.COLUMNS[1:]]
    assert practice[1].split() == ["Ada", "Lovelace", str(grade.fields(ada)["PROGRAM"]), "100",
                                   "100%", "0%"]


def test_the_phrase_draws_the_panel_and_signs_the_numbers(tmp_path, monkeypatch):
    path, = commands.hand_out(PHRASE, ["Ada"], tmp_path, "layer")
    number = grade.fields(path)["PROGRAM"]
    assert grade.fields(path)["LEVEL"] == "layer"
    asked = []
    monkeypatch.setattr(grade, "grades", lambda *given: asked.append(given) or [])
    commands.main(["grade", "--phrase-file", str(phrase_file(tmp_path)), str(path),
                   "--seconds", "9"])
    commands.main(["grade", str(path)])
    (paths, seed, signed, seconds), practice = asked
    assert (paths, seed, seconds) == ([path], commands.seed(PHRASE), 9.0)
    assert signed("Ada", number, "layer")
    assert not signed("Ada", number, "kernel")
    assert practice[1:3] == (0, None)


def test_a_file_runs_as_it_is_handed_out(tmp_path):
    path, = commands.hand_out(PHRASE, ["Ada"], tmp_path)
    filled(path, submissions.THOROUGH, "")
    done = subprocess.run([sys.executable, path], cwd=ROOT, env={"PYTHONPATH": str(ROOT)},
                          capture_output=True, text=True, check=True)
    number = grade.fields(path)["PROGRAM"]
    assert done.stdout == f"asking\n<program {number}, a kernel> is sick\n"


@pytest.mark.parametrize(("arguments", "message"), [
    (("grade", "nowhere.py"), "nowhere.py"),
    (("hand-out", "--students", "nowhere.txt", "--to", "out"), "nowhere.txt"),
    (("hand-out", "--phrase-file", "nowhere", "--students", "README.md", "--to", "out"), "nowhere"),
    (("reveal", "-3"), "the number must be at least 0")])
def test_what_cannot_be_done_is_said_without_a_traceback(arguments, message):
    status, out, error = command(*arguments)
    assert status == 2
    assert message in out + error
    assert "Traceback" not in out + error


def test_an_empty_folder_raises_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no \*\.py in"):
        commands.main(["grade", str(tmp_path)])


def test_all_faults_are_given_once_before_any_is_given_twice():
    for level in programs.LEVELS:
        names = programs.names(level)
        given = [programs.chosen(number, level).fault for number in commands.numbers(
            PHRASE, CLASS, level).values()]
        for start in range(0, len(CLASS) - len(names) + 1, len(names)):
            assert sorted(given[start:start + len(names)]) == sorted(names)


def test_numbers_are_the_same_again_and_a_latecomer_changes_none():
    first = commands.numbers(PHRASE, CLASS[:20])
    assert commands.numbers(PHRASE, [f" {name}\n" for name in CLASS[:20]] + ["", *CLASS[:3]]
                              ) == first
    assert list(commands.numbers(PHRASE, CLASS).items())[:20] == list(first.items())
    assert len(set(first.values())) == 20
    other = commands.numbers("coffee at five", CLASS[:20])
    assert not set(first.values()) & set(other.values())
    assert {len(str(number)) for number in [*first.values(), *other.values()]} == {8}


def test_a_number_is_signed_for_one_student_one_phrase_and_one_level():
    (ada, one), (ben, two) = commands.numbers(PHRASE, CLASS[:2]).items()
    assert commands.signed(PHRASE, ada, one)
    assert commands.signed(PHRASE, f"{ben} ", two)
    last = commands.number(PHRASE, ada, attempt=commands.TRIES - 1)
    assert commands.signed(PHRASE, ada, last)
    assert not commands.signed(PHRASE, ada, two)
    assert not commands.signed("coffee", ada, one)
    assert not commands.signed(PHRASE, ada, one, "layer")
    assert commands.number(PHRASE, ada) != commands.number(PHRASE, ada, attempt=1)
    assert commands.number(PHRASE, ada) != commands.number(PHRASE, ada, "layer")


def test_the_phrase_draws_the_panel():
    assert commands.seed(PHRASE) == commands.seed(PHRASE) != commands.seed("coffee")
    assert 0 <= commands.seed("coffee") < 2**48


@pytest.mark.parametrize("phrase", ["", "  ", "\n"])
def test_an_empty_phrase_is_refused(phrase, tmp_path, monkeypatch):
    path = phrase_file(tmp_path, phrase)
    for what in (["hand-out", "--students", str(path), "--to", str(tmp_path)],
                 ["grade", str(path)]):
        with pytest.raises(ValueError, match="the phrase is empty"):
            commands.main([*what, "--phrase-file", str(path)])
    monkeypatch.setattr(commands.getpass, "getpass", lambda prompt: phrase)
    with pytest.raises(ValueError, match="the phrase is empty"):
        commands.main(["grade", "--phrase-file", "-", str(path)])


def test_the_phrase_is_asked_for_and_never_a_word_of_the_command(tmp_path, monkeypatch):
    names = tmp_path / "class.txt"
    names.write_text("Ada\n", encoding="utf-8")
    monkeypatch.setattr(commands.getpass, "getpass", lambda prompt: PHRASE)
    commands.main(["hand-out", "--students", str(names), "--to", str(tmp_path / "asked")])
    commands.main(["hand-out", "--phrase-file", str(phrase_file(tmp_path)), "--students",
                   str(names), "--to", str(tmp_path / "read")])
    asked, read = ((tmp_path / folder / "Ada.py").read_text() for folder in ("asked", "read"))
    assert asked == read
    with pytest.raises(SystemExit):
        commands.options(["grade", "--phrase", PHRASE, "x.py"])


def test_the_key_of_a_phrase_costs_its_guesser_as_much_as_scrypt_does():
    expected = hashlib.scrypt(PHRASE.encode(), salt=commands.SALT, n=2**15, r=8, p=1,
                              maxmem=2**26)
    assert commands.key(PHRASE) == expected


@pytest.mark.parametrize("name", ['Ada', '"""', "O'Neil \\N{oops}", "Zoë\t$number ${level}"])
@pytest.mark.parametrize("level", programs.LEVELS)
def test_the_handout_says_what_may_occur_and_nothing_of_what_does(name, level, tmp_path):
    path = tmp_path / "file.py"
    path.write_text(commands.handout(name, 12345678, level), encoding="utf-8")
    text = path.read_text(encoding="utf-8")
    compile(text, path.name, "exec")
    assert grade.fields(path) == {"STUDENT": name, "PROGRAM": 12345678, "LEVEL": level,
                                    "DIAGNOSIS": ""}
    told = " ".join(text.split())
    assert ", ".join(programs.names(level)) + ". 2. Write" in told
    assert " ".join(programs.CONTRACTS[level].split()) in told
    assert commands.CALLS[level] in told
    assert text.count("12345678") == 3
    assert max(len(line) for line in text.splitlines()) <= 100


def test_two_students_never_get_one_file(tmp_path):
    with pytest.raises(ValueError, match=r"several students would get A_B\.py"):
        commands.hand_out(PHRASE, ["A B", "A-B"], tmp_path)
    assert not list(tmp_path.iterdir())


def test_details_are_revealed_with_the_fault():
    window, plain = (next(n for n in range(999) if programs.chosen(n).fault == fault)
                     for fault in ("window", "no scale"))
    assert commands.main(["reveal", str(plain)]) == f"program {plain}: no scale"
    detail = programs.chosen(window).detail
    assert detail.endswith("positions away")
    assert commands.main(["reveal", str(window)]) == f"program {window}: window ({detail})"
    layer = programs.chosen(plain, "layer").fault
    assert layer in commands.main(["reveal", str(plain), "--level", "layer"])


def test_options_are_read():
    said = commands.options(["grade", "x.py", "--json", "--seconds", "7.5"])
    assert (said.phrase_file, said.seconds, said.show) == (None, 7.5, grade.as_json)
    said = commands.options(["hand-out", "--students", "l", "--to", "f"])
    assert str(said.phrase_file) == "-"
    assert (said.level, str(said.to)) == ("kernel", "f")
