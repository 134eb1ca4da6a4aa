"""Language models: what a request sees, and what it costs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.responses import Response

from ....programs.models.layout import DEGREES, Layout
from ..answers.models import ModelQuestion, ask_model, model_details, model_sheet, software_names
from ..attachment import ATTACHED, Format, Theme, attachment

router = APIRouter(tags=["models"])
Name = Annotated[str, Field(max_length=100)]
Tokens = Annotated[int, Field(ge=1, le=1 << 24)]
Degree = Annotated[int, Field(ge=1, le=4096)]


class ModelForm(BaseModel):
    machine: Name
    model: Name = ""
    config: dict[str, Any] | None = Field(None, description="The fields of a Hugging Face config.json.")
    batch: Tokens = 1
    prompt: Tokens = 2048
    generate: Tokens = 256
    static: bool = False
    dtype: Name = "bf16"
    weights: Name | None = None
    kv: Name | None = None
    software: Name | None = None
    ceilings: Literal["stated", "derived", "measured"] | None = None
    tp: Degree = 1
    pp: Degree = 1
    dp: Degree = 1
    ep: Degree = 1
    cp: Degree = 1

    def question(self) -> ModelQuestion:
        values = self.model_dump(exclude={*DEGREES, "batch", "prompt", "generate", "swept", "others"})
        sizes: dict[str, Any] = {name: float(getattr(self, name)) for name in ("batch", "prompt", "generate")}
        layout = Layout(tp=self.tp, pp=self.pp, dp=self.dp, ep=self.ep, cp=self.cp)
        return ModelQuestion(**values, **sizes, layout=layout)


class DetailsForm(ModelForm):
    swept: Name = "batch"
    others: list[Name] = Field(default_factory=list, max_length=8)


@router.post("/model")
def served(form: ModelForm) -> dict[str, Any]:
    """The answer of `ridgeline model`: first token, further tokens, throughput, and both phases on the roofline."""
    return ask_model(form.question())


@router.post("/model/details")
def details(form: DetailsForm) -> dict[str, Any]:
    """Memory, a curve over the batch or the prompt, energy, changes and their gain, the same on other machines."""
    return model_details(form.question(), form.swept, form.others)


@router.post("/model/export", response_class=Response, responses=ATTACHED)
def saved(form: DetailsForm, format: Format = "png", theme: Theme = "light") -> Response:
    """What the view shows as a file: picture, table, data, or one page with all of it."""
    return attachment(model_sheet(form.question(), form.swept), "model", format, theme)


@router.get("/software")
def engines() -> list[str]:
    """What runs models, by name."""
    return software_names()
