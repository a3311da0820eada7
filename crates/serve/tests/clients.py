"""The clients that people have, unchanged, against `roformer serve`: each gets what `roformer` itself prints, to the bit.

    python crates/serve/tests/clients.py target/release/roformer

A client whose package is not installed is skipped, and said so. `crates/cli/tests/serve.rs` runs this.
"""

import json
import os
import struct
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
MODELS = ROOT / "examples" / "models"
CROSS_ENCODER = ROOT / "golden" / "sentence-transformers" / "cross-encoder"
TEXTS = ["广州和深圳哪个好？", "今天天气很好", "小明住在上海，他喜欢看书。"]
KEY = "a key"
program = sys.argv[1]
environment = {**os.environ, "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
for name in ("NO_PROXY", "no_proxy"):
    os.environ[name] = "127.0.0.1"
# The program finds no hub; huggingface_hub's client would then not even ask this machine.
os.environ.pop("HF_HUB_OFFLINE", None)


def roformer(*arguments):
    """What the program prints, as JSON."""
    run = subprocess.run([program, *map(str, arguments), "--json"], capture_output=True, check=True, env=environment)
    return [json.loads(line) for line in run.stdout.decode().splitlines()]


def vectors(model, texts):
    return [bits(line["embedding"]) for line in roformer("embed", "--model", model, "--normalize", *texts)]


def bits(vector):
    """The numbers as the f32 that they are."""
    return struct.pack(f"<{len(vector)}f", *vector)


@contextmanager
def serving(*models):
    arguments = [program, "serve", "--port", "0", "--api-key", KEY, "--log-level", "warn"]
    for model in models:
        arguments += ["--model", str(model)]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, env=environment)
    try:
        yield process.stdout.readline().decode().split()[0]
    finally:
        process.terminate()
        assert process.wait(60) == 0


def openai_client():
    from openai import APIStatusError, OpenAI

    with serving(MODELS / "tiny-sim", MODELS / "tiny-gpt") as url:
        client = OpenAI(api_key=KEY, base_url=f"{url}/v1")
        expected = vectors(MODELS / "tiny-sim", TEXTS)
        assert [model.id for model in client.models.list()] == ["tiny-sim", "tiny-gpt"]
        # The client asks for base64 unless it is told otherwise.
        for options in ({}, {"encoding_format": "float"}):
            answer = client.embeddings.create(model="tiny-sim", input=TEXTS, **options)
            assert [bits(item.embedding) for item in answer.data] == expected
        few = client.embeddings.create(model="tiny-sim", input=TEXTS[0], dimensions=8)
        assert len(few.data[0].embedding) == 8
        (text,) = roformer("generate", "--model", MODELS / "tiny-gpt", "--temperature", "0", "--max-tokens", "20", "今天")
        options = {"model": "tiny-gpt", "prompt": "今天", "max_tokens": 20, "temperature": 0}
        whole = client.completions.create(**options)
        assert whole.choices[0].text == text["text"], (whole, text)
        pieces = [chunk.choices[0].text for chunk in client.completions.create(**options, stream=True)]
        assert len(pieces) > 2 and "".join(pieces) == text["text"]
        try:
            client.embeddings.create(model="nobody", input="x")
            raise AssertionError("a model that is not there was found")
        except APIStatusError as error:
            assert error.status_code == 404 and "nobody" in error.message
        try:
            OpenAI(api_key="wrong", base_url=f"{url}/v1").models.list()
            raise AssertionError("a wrong key was taken")
        except APIStatusError as error:
            assert error.status_code == 401


def langchain():
    from huggingface_hub import InferenceClient
    from langchain_huggingface import HuggingFaceEndpointEmbeddings

    with serving(MODELS / "tiny-sim") as url:
        try:
            client = HuggingFaceEndpointEmbeddings(model=url, huggingfacehub_api_token=KEY)
        except ValueError:
            # Since 2026 the class takes no address itself; its client does.
            client = HuggingFaceEndpointEmbeddings(model="any/model", huggingfacehub_api_token=KEY)
            client.client = InferenceClient(model=url, token=KEY)
        expected = vectors(MODELS / "tiny-sim", TEXTS)
        assert [bits(vector) for vector in client.embed_documents(TEXTS)] == expected
        assert bits(client.embed_query(TEXTS[1])) == expected[1]


def llama_index():
    from llama_index.embeddings.text_embeddings_inference import TextEmbeddingsInference

    with serving(MODELS / "tiny-sim") as url:
        client = TextEmbeddingsInference(
            model_name="tiny-sim", base_url=url, auth_token=KEY, query_instruction="", text_instruction=""
        )
        # The class puts a space behind an instruction, also behind none, and cuts what is around the text.
        assert [bits(vector) for vector in client.get_text_embedding_batch(TEXTS)] == vectors(MODELS / "tiny-sim", TEXTS)


def llama_index_rerank():
    from llama_index.core.schema import NodeWithScore, TextNode
    from llama_index.postprocessor.tei_rerank import TextEmbeddingInference

    with serving(CROSS_ENCODER) as url:
        client = TextEmbeddingInference(base_url=url, top_n=2, auth_token=f"Bearer {KEY}")
        nodes = [NodeWithScore(node=TextNode(text=text)) for text in ("a small dog", "rain", "fine weather")]
        ranked = client.postprocess_nodes(nodes, query_str="weather")
        best = roformer("rank", "--model", CROSS_ENCODER, "weather", "a small dog", "rain", "fine weather")
        assert [node.text for node in ranked] == [line["text"] for line in best[:2]]


def huggingface_hub():
    from huggingface_hub import InferenceClient

    with serving(MODELS / "tiny-sim") as url:
        client = InferenceClient(model=url, token=KEY)
        expected = vectors(MODELS / "tiny-sim", TEXTS)
        assert [bits(vector.tolist()) for vector in client.feature_extraction(TEXTS)] == expected
        scores = client.sentence_similarity(TEXTS[0], other_sentences=TEXTS)
        assert abs(scores[0] - 1) < 1e-6 and len(scores) == 3
    with serving(MODELS / "tiny-mlm") as url:
        filled = InferenceClient(model=url, token=KEY).fill_mask("今天[MASK]气很好", top_k=2)
        (line,) = roformer("fill-mask", "--model", MODELS / "tiny-mlm", "--top-k", "2", "今天[MASK]气很好")
        assert [guess.token_str for guess in filled] == [guess["token"] for guess in line["guesses"]], (filled, line)
    with serving(MODELS / "tiny-classifier") as url:
        labels = InferenceClient(model=url, token=KEY).text_classification("这部电影很好看。")
        assert labels[0].label == "正面"
    with serving(MODELS / "tiny-ner") as url:
        parts = InferenceClient(model=url, token=KEY).token_classification("小明住在北京。")
        assert [(part.word, part.entity_group) for part in parts] == [("小明", "人名"), ("北京", "地名")]
    with serving(MODELS / "tiny-qa") as url:
        found = InferenceClient(model=url, token=KEY).question_answering(question="小明住在哪里？", context="小明住在北京。")
        assert found.answer == "北京", found


def cohere_client():
    import cohere

    documents = ["a small dog", "rain in the north", "the weather is fine"]
    with serving(CROSS_ENCODER) as url:
        best = roformer("rank", "--model", CROSS_ENCODER, "weather", *documents)
        order = [documents.index(line["text"]) for line in best]
        newer = cohere.ClientV2(api_key=KEY, base_url=url)
        ranked = newer.rerank(model="rerank-v3.5", query="weather", documents=documents, top_n=2)
        assert [result.index for result in ranked.results] == order[:2]
        older = cohere.Client(api_key=KEY, base_url=url)
        ranked = older.rerank(model="rerank-v3.5", query="weather", documents=documents, return_documents=True)
        assert [result.document.text for result in ranked.results] == [documents[index] for index in order]


failed = False
for test in (openai_client, langchain, llama_index, llama_index_rerank, huggingface_hub, cohere_client):
    try:
        test()
        print(f"{test.__name__}: ok")
    except ImportError as error:
        print(f"{test.__name__}: skipped: {error}")
    except Exception as error:
        failed = True
        import traceback

        traceback.print_exc()
        print(f"{test.__name__}: FAILED: {error!r}")
sys.exit(failed)
