"""Makes the pictures of docs/gallery.md: small runs of the model that ships, and what is drawn of them.

    python docs/gallery.py                     # all runs, then all pictures: half an hour on two CPU cores
    python docs/gallery.py --runs logs/gallery power plan   # some pictures; runs that are there are not made again

Pages are photographed by playwright with a Chromium of the path, and what a command prints is set as text.
"""

import argparse
import html
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

PICTURES = Path(__file__).parent / "gallery"
MOST = 80_000  # bytes of a picture
EDGE = 14  # pixels above and below a part of a page
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SMALL = ["experiment=countdown_grid", "sampler=transformers", "rollout.steps=60", "trainer.val_check_interval=20"]
TURNS = ["experiment=calculator", "sampler=transformers", "algorithm=grpo", "rollout.steps=40"]
# By name, what makes a folder of runs, and what is there when it is made; {runs} is the folder of all.
COMMANDS: dict[str, tuple[list[str], str]] = {
    "sweep": (
        ["train", "-m", *SMALL, "algorithm=grpo,stare", "seed=0,1,2", "hydra.sweep.dir={runs}/sweep"],
        "sweep/algorithm=stare,seed=2/curves.png",
    ),
    "more": (
        ["train", "-m", *SMALL, "algorithm=grpo,stare", "seed=0,1,2,3", "hydra.sweep.dir={runs}/sweep"],
        "more.txt",
    ),
    "report": (["report", "{runs}/sweep", "--out", "{runs}/report"], "report/report.html"),
    "calculator": (["train", *TURNS, "hydra.run.dir={runs}/calculator"], "calculator/curves.png"),
    "eval": (["eval", "subject=src/isentropic/assets/countdown", "folder={runs}/eval"], "eval/card.html"),
    "audit": (
        [
            *["audit-task", "experiment=quickstart", "sampler=transformers", "task=reasoning_gym", "task.name=gcd"],
            *['task.template="{question}"', "sampler.max_model_len=256", "rollout.decoding.max_tokens=16"],
            "hydra.run.dir={runs}/audit",
        ],
        "audit/audit.md",
    ),
    "plan": (
        ["plan", "experiment=stare_qwen2_5_math_7b", "trainer.devices=8", "card=h200", "hydra.run.dir={runs}/plan"],
        "plan/plan.json",
    ),
    "inspect": (
        [
            *["inspect", "algorithm=stare_c2", "algorithm.control.target=1.2", "rollouts=docs/rollouts.jsonl"],
            *["html={runs}/inspect.html", "hydra.run.dir={runs}/inspect"],
        ],
        "inspect.html",
    ),
}

FIRST = {"report": "more", "more": "sweep"}


@dataclass(frozen=True)
class Picture:
    """A file that a command drew, a part of a page, or what a command printed."""

    of: str  # the command
    file: str  # below the folder of runs
    part: str = ""  # of a page, by CSS
    chosen: str = ""  # of the first choice of the page, by its beginning
    lines: slice = field(default_factory=lambda: slice(None))  # of what was printed
    dark: bool = False
    width: int = 1000
    height: int | None = None  # of what is shown, from the part's upper edge


PAGES: dict[str, Picture] = {
    "score": Picture("report", "report/figures/headline.svg"),
    "curves": Picture("report", "report/figures/entropy_mean_rollouts.svg"),
    "overview": Picture("report", "report/figures/overview.png", width=1000),
    "dark": Picture("report", "report/report.html", "#curves", dark=True, height=770),
    "verdicts": Picture("report", "report/report.html", "#entropy", width=1260),
    "tokens": Picture("report", "report/report.html", "#tokens", height=760, chosen="stare"),
    "inspect": Picture("inspect", "inspect.html", ".tk-modes", height=720),
    "card": Picture("eval", "eval/card.html", "body", width=1160, height=1080),
    "turns": Picture("calculator", "calculator/curves.png", width=1000),
    "sweep": Picture("more", "more.txt", lines=slice(1, None), width=700),
    "plan": Picture("plan", "plan.txt", lines=slice(1, 31)),
    "audit": Picture("audit", "audit.txt", lines=slice(1, 29)),
}
NAMES = (*PAGES, "power")
SET = """<!doctype html><meta charset=utf-8><style>body{margin:0;background:#fff}
pre{margin:0;padding:16px 20px;font:13px/1.45 'DejaVu Sans Mono',monospace;color:#1a1a1a;white-space:pre-wrap}</style>
<pre>%s</pre>"""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*NAMES, []], default=NAMES, help="of pictures; all")
    parser.add_argument("--runs", type=Path, default=Path("logs/gallery"))
    given = parser.parse_args(arguments)
    PICTURES.mkdir(exist_ok=True)
    for name in given.names:
        made = power() if name == "power" else picture(name, PAGES[name], given.runs)
        print(f"{made} {made.stat().st_size / 1000:.0f} kB", flush=True)


def picture(name: str, one: Picture, runs: Path) -> Path:
    """Raises ValueError for one of more than 80 kB."""
    run(one.of, runs)
    source = runs / one.file
    if source.suffix == ".svg":
        return Path(shutil.copy(source, PICTURES / f"{name}.svg"))
    if source.suffix == ".png":
        return shrunk(source.read_bytes(), one.width, PICTURES / f"{name}.png")
    if source.suffix == ".txt":
        shown = "\n".join(source.read_text().splitlines()[one.lines])
        page = source.with_suffix(".shown.html")
        page.write_text(SET % html.escape(shown))
        return shrunk(photograph(page, "pre", one), one.width, PICTURES / f"{name}.png")
    return shrunk(photograph(source, one.part, one), one.width, PICTURES / f"{name}.png")


def run(name: str, runs: Path) -> None:
    """A command, once, after those that it reads from; what it prints stays beside it."""
    if name in FIRST:
        run(FIRST[name], runs)
    words, made = COMMANDS[name]
    if (runs / made).exists():
        return
    runs.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "isentropic", *(word.replace("{runs}", str(runs)) for word in words)]
    with (runs / f"{name}.txt").open("w") as printed:
        subprocess.run(command, stdout=printed, check=True)


def photograph(page: Path, part: str, one: Picture) -> bytes:
    from playwright.sync_api import sync_playwright

    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        shape: Any = {"width": one.width, "height": 900}
        view = opened.new_page(viewport=shape, color_scheme="dark" if one.dark else "light")
        view.goto(page.resolve().as_uri())
        if one.chosen:
            found = view.locator("select").first.locator("option").all_text_contents()
            view.locator("select").first.select_option(next(text for text in found if text.startswith(one.chosen)))
        box = view.locator(part).first.bounding_box()
        assert box is not None
        top = max(0, box["y"] - EDGE)
        clip: Any = {
            "x": 0,
            "y": top,
            "width": one.width,
            "height": one.height or box["y"] + box["height"] + EDGE - top,
        }
        shot = view.screenshot(full_page=True, clip=clip)
        opened.close()
    return shot


def shrunk(png: bytes, width: int, target: Path) -> Path:
    """In as many colours as fit. Raises ValueError where 16 are too many."""
    image = Image.open(BytesIO(png)).convert("RGB")
    image = image.resize((width, round(image.height * width / image.width)), Image.Resampling.LANCZOS)
    for colours in (128, 64, 32, 16):
        image.quantize(colours, dither=Image.Dither.NONE).save(target, optimize=True)
        if target.stat().st_size <= MOST:
            return target
    raise ValueError(f"{target} has {target.stat().st_size} bytes, of at most {MOST}; show less of it")


def power() -> Path:
    """The table of power of docs/statistics.md as curves."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    from isentropic.reporting.analysis.power import findable
    from isentropic.reporting.render.run_curves import COLOURS, DASHES
    from isentropic.reporting.render.style import SETTINGS

    seeds = [3, 4, 5, 6, 8, 10, 12, 16, 24, 32]
    with matplotlib.rc_context(SETTINGS):
        figure = Figure(figsize=(5.4, 3.2), layout="constrained")
        FigureCanvasSVG(figure)
        axis: Any = figure.subplots()
        for place, comparisons in enumerate((1, 5, 12)):
            for paired in (True, False):
                found = [findable(n, n, paired, comparisons) for n in seeds]
                label = f"{comparisons} comparison{'s' if comparisons > 1 else ''}, {'pairs' if paired else 'no pairs'}"
                axis.plot(seeds, found, color=COLOURS[place], linestyle=DASHES[not paired], label=label)
        axis.set(xscale="log", xticks=seeds, xticklabels=seeds, ylim=(0, 8), xlabel="seeds of each group")
        axis.minorticks_off()
        axis.set_title("smallest difference that is found 4 times in 5, in standard deviations", loc="left")
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False)
        figure.savefig(PICTURES / "power.svg", metadata={"Date": None})
    return PICTURES / "power.svg"


if __name__ == "__main__":
    main()
