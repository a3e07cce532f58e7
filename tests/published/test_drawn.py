"""What is drawn from the committed data has the checksums that were committed with them."""

import hashlib

from ladder.analysis.dataset import Dataset
from ladder.core.files import ROOT
from ladder.figures import draw, layout
from ladder.model.campaign import WIDTH
from ladder.publishing import publish
from ladder.storage.published_index import featured


def test_tables_and_figures_have_the_published_bytes(opened, published, tmp_path):
    """Every table, every figure that a page shows, and of each model of device one figure of each kind. `snakemake published` draws all."""
    shown, kinds, wrong = publish.pictures(ROOT), set(), []
    for name, folder in featured(published).items():
        device, drawn, prefix = name.split("/")[0], tmp_path / name, f"../../../redrawn/{name}/"
        dataset = Dataset.open(folder)
        tables, environment = publish.tabulate(dataset, drawn), dataset.environment
        if dataset.counters is not None:
            draw.draw_counters(dataset.counters, tables, environment, drawn / "counters")
        figures = draw.plan(tables, environment, WIDTH)
        for stem, (data, figure) in figures.items():
            kind = device, figure.partition("-")[0], data.state
            if kind not in kinds or (published / name / f"figures/{stem}.svg").resolve() in shown:
                kinds.add(kind)
                (drawn / "figures").mkdir(exist_ok=True)
                layout.save(draw.draw(figure, data), drawn / "figures" / stem)
        sums = {path.removeprefix(prefix): it for path, it in publish.read_sums(published / name).items() if prefix in path}
        made = publish.drawn_files(drawn)
        assert set(sums) == {*made, *(f"figures/{stem}.svg" for stem in figures)}, name
        wrong += [f"{name}/{path}" for path, file in made.items() if hashlib.sha256(file.read_bytes()).hexdigest() != sums[path]]
    assert len(kinds) > 30
    assert wrong == []


def test_the_figure_of_several_devices_has_the_published_bytes(opened, published, tmp_path):
    assert publish.draw_compared(published, tmp_path)
    publish.check_drawn(published, tmp_path)
