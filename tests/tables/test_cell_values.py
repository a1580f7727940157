"""What is a number, a quantity or a date, and what is text."""

from hardem_jax.tables.cell_values import parse_date, parse_number, parse_quantity

NUMBERS = {"2004": 2004, "1,514,069": 1514069, "1,2": 12, ",5": 5, "1,,2": 12, "-0.5": -0.5}
NUMBERS |= {".15": 0.15, "5.": 5, "1E5": 1e5, "1,000.5E-2": 10.005, "9" * 300: float("9" * 300)}
NO_NUMBERS = ["", "-", ".", ",", "-.", "12,", "1e5", "+5", "5%", "$5", "1st", "2:47", "3-2", "ten"]
NO_NUMBERS += [" 5", "5 ", "1.2.3", "--5", "5-", "1E", "٣", "½", "nan", "inf", "1_000", "0x10"]
QUANTITIES = {"10 years": (10, "years"), "82.6 m": (82.6, "m"), "9,000 cakes": (9000, "cakes")}
NO_QUANTITIES = ["10", "10 ", "10  years", "10 AFC Champions", "ten years", "years 10", ""]


def test_numbers_and_quantities():
    assert {text: parse_number(text) for text in NUMBERS} == NUMBERS
    assert not [x for x in [*NO_NUMBERS, "9" * 400, "2 hours"] if parse_number(x) is not None]
    assert {text: parse_quantity(text) for text in QUANTITIES} == QUANTITIES
    assert not any(map(parse_quantity, NO_QUANTITIES))


DATES = {"January 4, 1994": (1994, 1, 4), "january 4 1994": (1994, 1, 4)}
DATES |= {"Jan. 4, 1994": (1994, 1, 4), "Sept 4th, 1994": (1994, 9, 4)}
DATES |= {"Friday, July 9, 2010": (2010, 7, 9), "7 August 2004": (2004, 8, 7)}
DATES |= {"the 2nd of May, 1990": (1990, 5, 2), "9 July": (None, 7, 9), "July 9": (None, 7, 9)}
DATES |= {"March 1983": (1983, 3, None), "May, 1983": (1983, 5, None), "May": (None, 5, None)}
DATES |= {"9-1-1990": (1990, 9, 1), "7/16/1932": (1932, 7, 16), "2010-07-06": (2010, 7, 6)}
DATES |= {"December 31, 1999": (1999, 12, 31), "2004-05": (2004, 5, None)}
DATES |= {"XXXX-07-06": (None, 7, 6), "2010-xx-06": (2010, None, 6)}
NO_DATES = ["2004", "2004-15", "xxxx-xx-xx", "199x", "13/12/1989", "July 32", "July 0", "Mayor 5"]
NO_DATES += ["Dec", "July 9 10", "9 to 5 July", "Tuesday", "1997/98", "2000-2005", "in May", ""]


def test_dates():
    assert {text: parse_date(text) for text in DATES} == DATES
    assert not [text for text in [*NO_DATES, "July 9, 10"] if parse_date(text)]
