"""Train ResNet-50 on random images: the usual loop in fp32, with the loss read every step."""

import argparse

import torch
from torch import nn


class Bottleneck(nn.Module):
    def __init__(self, c_in: int, width: int, stride: int) -> None:
        super().__init__()
        c_out = 4 * width
        self.conv1 = nn.Conv2d(c_in, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, c_out, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(c_out)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = nn.Identity()
        if stride != 1 or c_in != c_out:
            self.shortcut = nn.Sequential(nn.Conv2d(c_in, c_out, 1, stride, bias=False), nn.BatchNorm2d(c_out))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        return self.relu(self.bn3(self.conv3(y)) + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self, blocks: tuple[int, ...], width: int = 64, classes: int = 1000) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 7, 2, 3, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, 1),
        )
        stages, c_in = [], width
        for stage, count in enumerate(blocks):
            for block in range(count):
                stages.append(Bottleneck(c_in, width << stage, 2 if stage and not block else 1))
                c_in = 4 * (width << stage)
        self.stages = nn.Sequential(*stages)
        self.head = nn.Linear(c_in, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.stages(self.stem(x)).mean((2, 3)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="a network for a laptop")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--amp", action="store_true", help="bf16 autocast")
    parser.add_argument("--quiet", action="store_true", help="read the loss once, at the end")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    layout = torch.channels_last if args.channels_last else torch.contiguous_format
    model = ResNet((1, 1), 16, 10) if args.small else ResNet((3, 4, 6, 3))
    model = model.to(device, memory_format=layout)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    loss_of = nn.CrossEntropyLoss()
    batch, size, classes = (4, 64, 10) if args.small else (args.batch, 224, 1000)
    images = torch.randn(batch, 3, size, size).to(device).contiguous(memory_format=layout)
    labels = torch.randint(classes, (batch,)).to(device)
    loss = torch.zeros(())
    for step in range(args.steps):
        optimizer.zero_grad()
        with torch.autocast(device, torch.bfloat16, enabled=args.amp):
            loss = loss_of(model(images), labels)
        loss.backward()
        optimizer.step()
        if not args.quiet:
            print(f"step {step}: loss {loss.item():.3f}")
    print(f"last loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
