"""The recorded data sets that experiments read: where each is published, its licence and its checksums.

None is part of spotfed, because their licences differ. ``spotfed data`` lists, fetches and verifies them.
"""

from __future__ import annotations

from dataclasses import dataclass

_RAW = "https://raw.githubusercontent.com"
_EUCALYPTUS = (
    f"{_RAW}/DanielFloripa/EAVIRA_CHAVE/70fff08536cd18ca9f3cfbe65f373b6af6f2996e/input/eucalyptus-traces"
)
_SWF = f"{_RAW}/pooya-poi/cloudcomputing-workload-dataset/e12270907e34c3a0486be1110c4376a69ff10cca"
_NASA = f"{_RAW}/cloudsimplus/cloudsimplus-examples/4394086de1dee68fd5d96cf818f92410bb660dfd"
_PRICES = f"{_RAW}/DevNambi/Spot-Price-Analysis/b6c8dcda6a83b0d520da5effa6f7bafc4bf215ea/raw-data"


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of a data set.

    Attributes
    ----------
    path
        Its place below the data directory.
    size
        Bytes.
    sha256
        In hexadecimal.
    address
        Where exactly these bytes are published; None if the publisher has them in another form.
    """

    path: str
    size: int
    sha256: str
    address: str | None = None


@dataclass(frozen=True, slots=True)
class DataSet:
    """A recorded data set.

    Attributes
    ----------
    source
        Its publisher, as far as it is known, and the address of the project that it was taken from.
    licence
        As its source states it.
    conversion
        How files without an address are made from what the source publishes.
    """

    name: str
    title: str
    source: str
    licence: str
    files: tuple[DataFile, ...]
    conversion: str = ""

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)


DATA_SETS = (
    DataSet(
        "eucalyptus",
        "private clouds of P1 and P2: starts and stops of virtual machines",
        "R. Wolski and J. Brevik, UC Santa Barbara; github.com/DanielFloripa/EAVIRA_CHAVE",
        "none stated; published for research",
        (
            DataFile(
                "eucalyptus/DS2-trace.txt",
                51_804,
                "c728950f234bc3beab46238b306e0d49a8e20d9249637c92e3be314e6355e7d3",
                f"{_EUCALYPTUS}/DS2-trace.txt",
            ),
            DataFile(
                "eucalyptus/DS3-trace.txt",
                150_942,
                "544b209235eb1baae45e71da6f0ebd18eb1593509196e894667784fa7f014173",
                f"{_EUCALYPTUS}/DS3-trace.txt",
            ),
            DataFile(
                "eucalyptus/DS5-trace.txt",
                483_970,
                "37b486b3666208efe9e94b6e2f0d68072715bafb1b0b2af1689d63a844cac212",
                f"{_EUCALYPTUS}/DS5-trace.txt",
            ),
            DataFile(
                "eucalyptus/DS6-trace.txt",
                236_989,
                "da0f804e56e96ebf4a41101ffef7597a5d67c6c19987ba09c843e3201b2c49a4",
                f"{_EUCALYPTUS}/DS6-trace.txt",
            ),
        ),
    ),
    DataSet(
        "swf",
        "Parallel Workloads Archive: logs of batch systems",
        "D. Feitelson and others; github.com/pooya-poi/cloudcomputing-workload-dataset",
        "free to use; acknowledge the archive and the providers named in each log",
        (
            DataFile(
                "swf/KTH-SP2-1996-2.1-cln.swf.gz",
                411_455,
                "3e152f201fd2e96808a735bced6ea6eb0bb07fdc447689cafb0750d87b264c0b",
                f"{_SWF}/KTH-SP2-1996-2.1-cln.swf.gz",
            ),
            DataFile(
                "swf/NASA-iPSC-1993-3.1-cln.swf.gz",
                207_976,
                "5589ae9b2fb78e3bf92de097497cf33a91607de1ad54563e43533f7827597f29",
                f"{_NASA}/src/main/resources/workload/swf/NASA-iPSC-1993-3.1-cln.swf.gz",
            ),
            DataFile(
                "swf/SDSC-SP2-1998-4.2-cln.swf.gz",
                1_205_570,
                "e03fe48be50c4ab04d6bb2285296d9c3399e9c1f27ee79b754ad32a14abd9bac",
                f"{_SWF}/SDSC-SP2-1998-4.2-cln.swf.gz",
            ),
        ),
    ),
    DataSet(
        "ondemand-prices-2015",
        "prices of EC2 on-demand instances, early 2015",
        "github.com/DevNambi/Spot-Price-Analysis",
        "Apache-2.0",
        (
            DataFile(
                "ondemand-prices-2015/ec2_ondemand_linux_prices_2015.csv",
                5_790,
                "26326142391fe73e87b5fdddb82bc1a40eb60757dfff187c43f7e4bb33ac2e58",
                f"{_PRICES}/EC2%20Price%20Instance%20Info.csv",
            ),
        ),
    ),
    DataSet(
        "spot-prices-2015",
        "EC2 spot prices of 10 markets, 2015-03 to 2015-08",
        "github.com/prateek-s/spot-price-model",
        "none stated",
        (
            DataFile(
                "spot-prices-2015/markets.csv",
                2_262,
                "28cd5cc884a43d08c867de9c76e7a05e6cf1c8dba184f40d76db84a6a8ac062b",
            ),
            DataFile(
                "spot-prices-2015/us-east-1a_c3.xlarge.csv.gz",
                246_538,
                "055e1e9f6610f81f059ed3cf4d7854539fcb94baf7cdd68d2c91689479111021",
            ),
            DataFile(
                "spot-prices-2015/us-east-1a_d2.8xlarge.csv.gz",
                56_264,
                "8a400780b494093948331b8b7193a753435c128f5632f89891c5f0508d893371",
            ),
            DataFile(
                "spot-prices-2015/us-east-1a_g2.2xlarge.csv.gz",
                134_832,
                "fb04dc9d72a02f775fbd39f6894ecc190fb7d55428ba791209c8ad1b291e4a1d",
            ),
            DataFile(
                "spot-prices-2015/us-east-1a_m3.medium.csv.gz",
                19_293,
                "c44d20a60a8ece32b10d12811e16a06b3fca8586e8dab66869bfe4451d577e51",
            ),
            DataFile(
                "spot-prices-2015/us-east-1a_r3.large.csv.gz",
                105_088,
                "655dd5be41cd96e4d37908fec393523466a0e723d18b056344d7a47090bd9384",
            ),
            DataFile(
                "spot-prices-2015/us-east-1b_c3.xlarge.csv.gz",
                160_172,
                "2f9281e588e87a0af07eaef3a17fb0d0886b7932f0b6a71a4434a712434f7b9e",
            ),
            DataFile(
                "spot-prices-2015/us-east-1b_d2.8xlarge.csv.gz",
                36_402,
                "c2ec5105de39d52cc2ba9e2a3af041acf4c8bb37e3f408943c6da3882957f8e9",
            ),
            DataFile(
                "spot-prices-2015/us-east-1b_g2.2xlarge.csv.gz",
                108_813,
                "250e677ce3313e28d80753d35383f3fb045e1dda119a1809cafe400f2e6edc8d",
            ),
            DataFile(
                "spot-prices-2015/us-east-1b_m3.medium.csv.gz",
                16_532,
                "983288ecde8565915afd972d1983d791d5f1ee57c316396a444ad690c9c1faf7",
            ),
            DataFile(
                "spot-prices-2015/us-east-1b_r3.large.csv.gz",
                111_434,
                "13636e1459439f1ceabf4d9864dcd8f75dba714ab9fedcb4c3231c87c943681c",
            ),
        ),
        "each pickle of a market as CSV (timestamp,price_usd_per_hour), sorted by time",
    ),
    DataSet(
        "spot-prices-2013",
        "EC2 spot prices of us-east-1, two weeks of January 2013",
        "github.com/iantruslove/aws-spot-price-history",
        "MIT",
        (
            DataFile(
                "spot-prices-2013/spot_prices_2012-12-31_2013-01-15.csv.gz",
                61_701,
                "204da6e5ca547df7bdc4700b1d113e1aef8b1b74e0d6b78f92393f7352b4746c",
            ),
        ),
        "the table PriceObjects of dev.db as CSV, without the rows of 2009",
    ),
    DataSet(
        "spot-prices-2021",
        "EC2 spot prices of 1,246 markets, 2021-03 to 2021-05",
        "github.com/LucianaMarques/amazon-spot-dataset",
        "none stated",
        (
            DataFile(
                "spot-prices-2021/spot_prices_a-l.csv.gz",
                477_156,
                "b6012b0fbda17cfa7710206e24a7375443b938bd7b97d92550b4c4a89114958c",
            ),
            DataFile(
                "spot-prices-2021/spot_prices_m-z.csv.gz",
                1_496_314,
                "19b15eefc1486850064216eadc0b1b88c9240f72216d4b3a052b03e2a5fe8051",
            ),
        ),
        "the Linux/UNIX rows of data/dados-30-maio-2021 as CSV, sorted, in two files",
    ),
    DataSet(
        "preemptions-gcp-2019",
        "lifetimes of preemptible virtual machines of Google Cloud",
        "P. Sharma, J. Kadupitiya, V. Jadhao; github.com/kadupitiya/goog-preemption-data",
        "Apache-2.0",
        (
            DataFile(
                "preemptions-gcp-2019/preemptions.csv",
                184_280,
                "65550e90a288c83c006c3a985f3c8100381b737e9dc04ff9b2915c07d1eac2f8",
            ),
        ),
        "data/data.json as CSV: zone, type, times and outcome of each machine",
    ),
    DataSet(
        "azure-2017",
        "Azure 2017 trace of virtual machines, 3.5 days of arrivals",
        "Microsoft (AzurePublicDataset); github.com/huaweicloud/trace_generation_rnn",
        "CC-BY 4.0",
        (
            DataFile(
                "azure-2017/vms_dev.csv.gz",
                815_633,
                "1d99d05c7e0a2413767a5bd1302c2e7b3a0e96d361e932a2f24fed9f72ab5343",
            ),
        ),
        "resources/traces/v1.dev*.txt with resources/maps, one row a machine",
    ),
)
