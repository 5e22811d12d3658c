import dataclasses
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccm_pulumi.config.placement import Placement
from ccm_pulumi.config.pools import Pool
from ccm_pulumi.preflight.cost import (
    ADDRESS,
    BALANCER,
    SERVER,
    Amount,
    Article,
    Item,
    Price,
    PriceList,
    bill_of,
    outputs,
    parse_prices,
    table,
)


def priced(name, location, month, hour):
    gross = {"price_monthly": f"{Decimal(month) * Decimal('1.19')}", "price_hourly": str(Decimal(hour) * 2)}
    net = {"price_monthly": month, "price_hourly": hour}
    at = {"location": location, **{per: {"net": net[per], "gross": gross[per]} for per in net}}
    return {"name": name, "type": name, "prices": [at]}


ANSWER = {
    "pricing": {
        "currency": "USD",
        "vat_rate": "19.00",
        "server_types": [priced("cpx22", "fsn1", "5.4900000000000000", "0.0088000000000000")],
        "load_balancer_types": [priced("lb11", "fsn1", "5.39", "0.0086")],
        "primary_ips": [priced("ipv4", "fsn1", "0.5", "0.0008")],
    }
}
PLACE = Placement("cpx22", "fsn1")
SERVERS = [("control", PLACE, True), ("worker", PLACE, True), ("worker", PLACE, False)]

amounts = st.decimals(0, 10**6, places=16)
items = st.builds(
    Item,
    st.sampled_from(["control", "worker", "Services"]),
    st.builds(Article, st.sampled_from([SERVER, BALANCER, ADDRESS]), st.sampled_from("ab"), st.just("fsn1")),
)
bills = st.dictionaries(items, st.integers(1, 200))
lists = st.dictionaries(
    items.map(lambda item: item.article),
    st.builds(Price, st.builds(Amount, amounts, amounts), st.builds(Amount, amounts, amounts)),
).map(lambda prices: PriceList("EUR", "19.00", prices))


@given(bills, lists)
def test_a_sum_is_exact_and_of_what_has_a_price(bill, prices):
    total = prices.total(bill)
    for per in ("hourly", "monthly"):
        for name in ("net", "gross"):
            expected = sum(
                Fraction(getattr(getattr(prices.prices[item.article], per), name)) * count
                for item, count in bill.items()
                if item.article in prices.prices
            )
            assert Fraction(getattr(getattr(total, per), name)) == expected
    without = {str(item.article) for item in bill if item.article not in prices.prices}
    assert set(prices.missing(bill)) == without
    assert set(outputs(bill, prices).get("withoutPrice", [])) == without


def test_prices_are_those_of_the_api():
    said = outputs(bill_of(SERVERS, [("lb11", "fsn1")]), parse_prices(ANSWER))
    assert said == {
        "currency": "USD",
        "hourly": {"net": "0.0366", "gross": "0.0732"},
        "monthly": {"net": "22.86", "gross": "27.20"},
        "monthlyByPool": {
            "control": {"net": "5.99", "gross": "7.13"},
            "worker": {"net": "11.48", "gross": "13.66"},
            "Services": {"net": "5.39", "gross": "6.41"},
        },
        "monthlyOfIpv4": {"net": "1.00", "gross": "1.19"},
    }


def test_the_table_tells_lines_sum_and_difference():
    prices = parse_prices(ANSWER)
    said = table("shop", bill_of(SERVERS), bill_of(SERVERS[:1], [("lb11", "fsn1")]), prices)
    assert said.splitlines() == [
        "Cost of shop in USD, gross with 19 % VAT, without traffic:",
        "                                         month            hour",
        "                                           net  gross      net    gross",
        "  control     1 x server cpx22     fsn1   5.49   6.53   0.0088   0.0176",
        "  control     1 x primary IP ipv4  fsn1   0.50   0.60   0.0008   0.0016",
        "  worker      2 x server cpx22     fsn1  10.98  13.07   0.0176   0.0352",
        "  worker      1 x primary IP ipv4  fsn1   0.50   0.60   0.0008   0.0016",
        "  sum                                    17.47  20.79   0.0280   0.0560",
        "  now                                    11.38  13.54   0.0182   0.0364",
        "  difference                             +6.09  +7.25  +0.0098  +0.0196",
    ]


def test_a_pool_of_the_autoscaler_is_in_no_sum_and_has_its_bounds_beside_them():
    prices = parse_prices(ANSWER)
    pool = Pool("burst", server_type="cpx22", location="fsn1", public_ipv4=True, min=1, max=5)
    bill = bill_of(SERVERS)
    said = outputs(bill, prices, [pool])
    bounds = {"from": {"net": "5.99", "gross": "7.13"}, "to": {"net": "29.95", "gross": "35.64"}}
    assert said == {**outputs(bill, prices), "monthlyByScaledPool": {"burst": bounds}}
    lines = table("shop", bill, bill, prices, [pool]).splitlines()
    assert lines[:-1] == table("shop", bill, bill, prices).splitlines()
    assert lines[-1] == (
        "The sums don't include the pool burst, whose servers the cluster-autoscaler creates: "
        "1 to 5 x server cpx22 in fsn1 cost "
        "5.99 to 29.95 net and 7.13 to 35.64 gross a month."
    )
    elsewhere = dataclasses.replace(pool, location="ash", min=0)
    without = ["primary IP ipv4 in ash", "server cpx22 in ash"]
    assert outputs(bill, prices, [elsewhere])["withoutPrice"] == without
    assert "without a price: primary IP ipv4 in ash" in table("shop", bill, bill, prices, [elsewhere])


def test_what_has_no_price_is_named_and_not_free():
    bill = bill_of([("control", Placement("cpx22", "ash"), True)])
    said = table("shop", bill, {}, parse_prices(ANSWER))
    assert "  control     1 x server cpx22     ash      ?      ?       ?       ?" in said.splitlines()
    assert said.endswith("without a price: primary IP ipv4 in ash, server cpx22 in ash.")


@pytest.mark.parametrize("text", ["", "free", "NaN", "Infinity", "-1", "1e40", None, {}])
def test_what_is_no_price_is_none(text):
    entry = priced("cpx22", "fsn1", "5.49", "0.0088")
    entry["prices"][0]["price_hourly"]["gross"] = text
    answer = {"pricing": {**ANSWER["pricing"], "server_types": [entry]}}
    assert Article(SERVER, "cpx22", "fsn1") not in parse_prices(answer).prices
