"""My kernels in Chromium: a recorded profile to its gap card by mouse and keys, paste, drop, wrong files, hostile names."""

from pathlib import Path

import pytest

pytestmark = pytest.mark.needs_browser
FIXTURES = Path(__file__).parents[1] / "fixtures"
RAW = FIXTURES / "ncu" / "h200_raw.csv"
HEADER = "name,time_us,flops.tensor.bf16,bytes.hbm\n"
HOSTILE = (
    "<img src=x onerror=window.stolen=1>",
    "</script><script>window.stolen=1</script>",
    "<b>bold</b><a href=javascript:window.stolen=1>x</a>",
    "abc\u202egnp.exe\u2066",
    "&lt;i&gt; &amp;",
    "n" * 100_000,
)
DROP = """([text, name]) => {
  const data = new DataTransfer();
  name ? data.items.add(new File([text], name)) : data.setData("text/plain", text);
  document.querySelector(".drop").dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
}"""


def test_a_recorded_profile_leads_to_a_gap_card(visit):
    page = visit("/profile")
    page.set_input_files("#profile-file", RAW)
    page.wait_for_selector(".answer >> text=14 kernels")
    row = page.locator(".results tbody tr").first
    row.click()
    card = page.locator(".gap-card")
    assert card.locator("h2").first.inner_text() == "gemm_fp32_4096"
    assert "vertical gap" in card.inner_text()
    assert "counted / algorithmic bytes" in card.inner_text()
    assert "use tensor cores" in card.locator(".moves").inner_text()
    card.locator(".charts .js-plotly-plot").nth(1).wait_for()
    # keys do the same: down to the next row, Enter
    row.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_selector(".gap-card h2 >> text=gemm_bf16_8192")
    # another machine is another answer of the same file
    page.select_option(".drop select", "a100-sxm-80gb")
    page.wait_for_selector(".error >> text=two machines")


def test_a_dot_opens_its_card(visit):
    page = visit("/profile?example=faults")
    page.wait_for_selector(".results tbody tr")
    plot = page.locator(".results .chart").first
    plot.locator(".points path").first.wait_for()
    plot.scroll_into_view_if_needed()
    spot = page.evaluate("""() => {
      const frame = document.querySelector(".results .chart"), { xaxis, yaxis } = frame._fullLayout;
      const point = frame.chart.points.find((each) => each.name === "conflict"), box = frame.getBoundingClientRect();
      return [box.x + xaxis._offset + xaxis.d2p(point.x), box.y + yaxis._offset + yaxis.d2p(point.y)];
    }""")
    page.mouse.move(spot[0] - 5, spot[1])
    page.mouse.move(*spot)
    page.wait_for_selector(".results .hoverlayer .hovertext")  # a click counts for the dot that is hovered
    page.mouse.click(*spot)
    page.wait_for_selector(".gap-card h2 >> text=conflict")
    assert "pad or swizzle" in page.inner_text(".gap-card .moves")
    page.wait_for_url("**kernel=1**")  # written when the page rests


def test_a_link_to_an_example_restores_the_card(visit):
    page = visit("/profile?example=kernels&kernel=2")
    page.wait_for_selector(".gap-card h2 >> text=flash_attention_bf16")
    assert "not known" in page.inner_text(".two-gaps")


def test_a_pasted_table_asks_for_its_machine(visit):
    page = visit("/profile")
    page.click("text=Paste text")
    page.fill("#profile-text", f"{HEADER}mine,100,1e10,1e8\n")
    page.click("text=Read the text")
    page.click("text=Choose the machine")
    page.select_option(".drop select", "h200-sxm")
    page.wait_for_selector(".gap-card")
    page.locator(".results tbody tr").first.click()
    page.wait_for_selector(".gap-card h2 >> text=mine")


def test_files_and_text_can_be_dropped(visit):
    page = visit("/profile?machine=h200-sxm")
    page.wait_for_selector(".drop")
    page.evaluate(DROP, [f"{HEADER}as_file,100,1e10,1e8\n", "kernels.csv"])
    page.wait_for_selector("td >> text=as_file")
    page.evaluate(DROP, [f"{HEADER}as_text,100,1e10,1e8\n", ""])
    page.wait_for_selector("td >> text=as_text")


def test_a_wrong_file_gets_one_message(visit):
    page = visit("/profile")
    page.set_input_files("#profile-file", {"name": "photo.png", "mimeType": "image/png", "buffer": b"\x89PNG\r\n" * 50})
    assert "photo.png has no known format" in page.inner_text(".results .error")


def test_a_hostile_name_stays_a_name(visit):
    page = visit("/profile?machine=h200-sxm")
    rows = "".join(f'"{name}",{100 + place},1e10,{1e8 * (place + 1)}\n' for place, name in enumerate(HOSTILE))
    page.set_input_files("#profile-file", {"name": '<img src=x onerror="window.stolen=1">.csv', "mimeType": "text/csv", "buffer": f"{HEADER}{rows}".encode()})  # fmt: skip
    table = page.locator(".results tbody tr")
    table.first.wait_for()
    for place in range(len(HOSTILE)):
        table.nth(place).click()
        page.wait_for_selector(".gap-card .two-gaps")
    assert page.evaluate("document.querySelectorAll('.results img, .results script, .results td b, .results a').length") == 0  # fmt: skip
    assert page.evaluate("window.stolen") is None
    shown = " ".join(table.locator("td:first-child").all_inner_texts())
    assert HOSTILE[0] in shown
    assert "\u202e" not in shown
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_report_is_saved_and_opens_offline(open_page, tmp_path):
    page = open_page("/profile?example=faults")
    with page.expect_download() as saved:
        page.click("text=Save the report (HTML)")
    path = tmp_path / "report.html"
    saved.value.save_as(path)
    page.context.set_offline(True)
    page.goto(path.as_uri())
    assert "register spills" in page.inner_text("main")


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_wider_than_the_window(visit, width):
    page = visit("/profile?example=kernels&kernel=0", width=width)
    page.locator(".gap-card .charts .js-plotly-plot").nth(1).wait_for()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
