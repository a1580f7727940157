"""TFDS builders whose records hold Z, found in one process or by Apache Beam, with equal files.

    builder = SolutionBuilder(DropNum(), folder="drop", data_dir="built")
    builder.download_and_prepare()                                        # this process, or
    builder.download_and_prepare(download_config=beam.beam_config(["direct_num_workers=8"]))
    question = open_build(builder.data_dir).examples("train")[0]

TensorFlow is not needed. Whoever only reads a build (`hardem_jax.data.built`) imports none of this.
"""
