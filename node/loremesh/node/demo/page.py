from loremesh.node.demo.results import DemoResult
import msgspec
def render(r: DemoResult) -> str:
    return msgspec.json.encode(r).decode()
