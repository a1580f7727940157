"""Where each data set is published, under which licence, and what its files are."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

_NQ = (
    "https://raw.githubusercontent.com/google-research-datasets/natural-questions/"
    "a7a113c9fdc2d9986d624bd43b8a18d6d5779eaa/nq_open"
)
_SQUAD = "https://rajpurkar.github.io/SQuAD-explorer/dataset"
_TRIVIAQA = "https://nlp.cs.washington.edu/triviaqa/data"
_WTQ = "https://github.com/ppasupat/WikiTableQuestions/releases/download/v1.0.2"


@dataclasses.dataclass(frozen=True)
class Source:
    """A published file.

    Attributes:
        url: its address.
        sha256: of its content, where it is known before the first download.
        size: in bytes, where it is known.
        unpack: an archive whose members are wanted.
    """

    url: str
    sha256: str | None = None
    size: int | None = None
    unpack: bool = False

    @property
    def name(self) -> str:
        """The last part of the address: the name of the local file."""
        return self.url.rpartition("/")[2]


@dataclasses.dataclass(frozen=True)
class Dataset:
    """A data set as its authors publish it.

    Attributes:
        title: its name.
        licence: what its authors say about its use.
        home: the page to read about it.
        sources: its files.
        strip: archives have a folder around all members, which is left out.
        then: the command that reads it, with ``{out}`` for its folder and without other flags.
    """

    title: str
    licence: str
    home: str
    sources: tuple[Source, ...]
    then: str
    strip: bool = False


# Sizes and checksums of TriviaQA and NQ-open are those that TensorFlow Datasets 4.9.10 records.
# The others are recorded at the first download.
DATASETS: Mapping[str, Dataset] = {
    "triviaqa": Dataset(
        "TriviaQA with evidence (Joshi et al., 2017)",
        "code Apache-2.0; the University of Washington owns no rights to questions and documents",
        "https://nlp.cs.washington.edu/triviaqa/",
        (
            Source(
                f"{_TRIVIAQA}/triviaqa-rc.tar.gz",
                "ef94fac6db0541e5bb5b27020d067a8b13b1c1ffc52717e836832e02aaed87b9",
                2_665_779_500,
                unpack=True,
            ),
        ),
        "experiments.triviaqa prepare --qa-file {out}/qa/wikipedia-train.json "
        "--evidence {out}/evidence",
    ),
    "triviaqa-open": Dataset(
        "TriviaQA without evidence (Joshi et al., 2017)",
        "code Apache-2.0; the University of Washington owns no rights to questions and documents",
        "https://nlp.cs.washington.edu/triviaqa/",
        (
            Source(
                f"{_TRIVIAQA}/triviaqa-unfiltered.tar.gz",
                "7f0c94207fd0a1eb7bba3d52cdfe0735c98de850b9e5aa4e75f2776ef9a531d0",
                632_549_060,
                unpack=True,
            ),
        ),
        "experiments.retrieve retrieve --layout triviaqa --questions "
        "{out}/triviaqa-unfiltered/unfiltered-web-train.json",
    ),
    "narrativeqa": Dataset(
        "NarrativeQA with summaries (Kočiský et al., 2018)",
        "Apache-2.0",
        "https://github.com/google-deepmind/narrativeqa",
        (Source("https://github.com/deepmind/narrativeqa/archive/master.zip", unpack=True),),
        "experiments.narrativeqa prepare --folder {out}",
        strip=True,
    ),
    "nq-open": Dataset(
        "NaturalQuestions-open (Lee et al., 2019)",
        "CC BY-SA 3.0",
        "https://github.com/google-research-datasets/natural-questions",
        (
            Source(
                f"{_NQ}/NQ-open.train.jsonl",
                "0c93aaf13b12f855628489665e4ef85ffb8573ad444646f11f4fabdc57a0aabf",
                8_522_298,
            ),
            Source(
                f"{_NQ}/NQ-open.dev.jsonl",
                "f15567f38099f3615f5b8a685c0aef449c11ad90d3da3735e8d1b98115b40616",
                391_316,
            ),
        ),
        "experiments.retrieve retrieve --questions {out}/NQ-open.train.jsonl",
    ),
    "drop": Dataset(
        "DROP (Dua et al., 2019)",
        "CC BY-SA 4.0",
        "https://allenai.org/data/drop",
        (
            Source(
                "https://s3-us-west-2.amazonaws.com/allennlp/datasets/drop/drop_dataset.zip",
                unpack=True,
            ),
        ),
        "experiments.drop prepare --folder {out}",
        strip=True,
    ),
    "wikisql": Dataset(
        "WikiSQL (Zhong et al., 2017)",
        "BSD-3-Clause",
        "https://github.com/salesforce/WikiSQL",
        (Source("https://github.com/salesforce/WikiSQL/raw/master/data.tar.bz2", unpack=True),),
        "experiments.wikisql prepare --folder {out}",
        strip=True,
    ),
    "wikitablequestions": Dataset(
        "WikiTableQuestions 1.0.2 (Pasupat and Liang, 2015)",
        "CC BY-SA 4.0",
        "https://github.com/ppasupat/WikiTableQuestions",
        (Source(f"{_WTQ}/WikiTableQuestions-1.0.2-compact.zip", unpack=True),),
        "experiments.wikitablequestions prepare --folder {out}",
        strip=True,
    ),
    "squad": Dataset(
        "SQuAD 1.1 (Rajpurkar et al., 2016)",
        "CC BY-SA 4.0",
        "https://rajpurkar.github.io/SQuAD-explorer/",
        (Source(f"{_SQUAD}/train-v1.1.json"), Source(f"{_SQUAD}/dev-v1.1.json")),
        "experiments.squad_layout prepare --file {out}/train-v1.1.json",
    ),
    "quoref": Dataset(
        "Quoref (Dasigi et al., 2019)",
        "CC BY 4.0",
        "https://allenai.org/data/quoref",
        (
            Source(
                "https://quoref-dataset.s3-us-west-2.amazonaws.com/train_and_dev/"
                "quoref-train-dev-v0.1.zip",
                unpack=True,
            ),
        ),
        "experiments.squad_layout prepare --file {out}/quoref-train-v0.1.json",
        strip=True,
    ),
    "dpr-wikipedia": Dataset(
        "Passages of Wikipedia, December 2018 (Karpukhin et al., 2020)",
        "Wikipedia's text CC BY-SA 3.0; the DPR repository CC BY-NC 4.0",
        "https://github.com/facebookresearch/DPR",
        (Source("https://dl.fbaipublicfiles.com/dpr/wikipedia_split/psgs_w100.tsv.gz"),),
        "experiments.retrieve index --passages {out}/psgs_w100.tsv.gz",
    ),
    "glove": Dataset(
        "GloVe vectors, 840B tokens (Pennington et al., 2014), for NAQANet",
        "Public Domain Dedication and License 1.0",
        "https://nlp.stanford.edu/projects/glove/",
        (Source("https://nlp.stanford.edu/data/glove.840B.300d.zip", unpack=True),),
        "experiments.drop train model:naqanet --model.word-vectors {out}/glove.840B.300d.txt",
    ),
}
