"""The reader: reading is validation, every refusal one sentence that names the node, and no file can make it raise anything else."""
import copy
import json
import random
import re
import unittest

import support
from assay.language import MechanismError, Program, digest, gradient, read, write
from assay.language.infer import OPS
from assay.language.read import MAX_BYTES

GOOD = write(support.library()["gated_deltanet"].trace())
FORGETTING = write(support.library()["forgetting_attention"].trace())

# In gated_deltanet: what is replaced by what, and the sentence.
SPOILT = [
    ('"exp"', '"expp"', r"body\.0: node 0 \(expp\): there is no operation 'expp'"),
    ('"version":1', '"version":4', "this is no assay-mechanism of version 1, 2 or 3"),
    ('["exp",[5]]', '["round",[5],{"site":"Tc"}]', "round is of version 2, and the file is of version 1"),
    ('["exp",[5]]', '["round",[5]]', r"body\.0: node 0 \(round\): its attribute site is missing"),
    ('["exp",[5]]', '["round",[5],{"site":"T c"}]', r"its attribute site is the name of a site, not 'T c'"),
    ('"version":1', '"version":1,"author":"x"', "the file: there is no key 'author'"),
    ('"format":"assay-mechanism",', "", "the file: the key format is missing"),
    ('"format":"assay-mechanism"', '"format":"assay"', "this is no assay-mechanism of version 1"),
    ('"a,ay->y"', '"a,aa->y"', r"body\.0: node \d+ \(contract\): \"a,aa->y\": an index occurs twice in one operand"),
    ('"a,ay->y"', '"a,ay->a"', r"every index is in two of both operands and the result"),
    ('"a,ay->y"', '"a,ya->y"', r"body\.0: node \d+ \(contract\): axis V meets axis K"),
    ('"a,ay->y"', '"a,ay"', r"its attribute spec is of the form \"ab,bc->ac\", not 'a,ay'"),
    ('"value":"1"', '"value":0.5', '0.5: numbers are strings, as in "1/10"'),
    ('"value":"1"', '"value":NaN', "NaN: numbers are strings"),
    ('"value":"1"', '"value":' + "9" * 5000, "numbers are strings"),
    ('"value":"1"', '"value":"2/4"', r"its attribute value is a truth value or a reduced fraction, as in \"1/10\", not '2/4'"),
    ('"value":"1"', '"value":"-0"', "reduced fraction"),
    ('"value":"1"', '"value":"1/0"', "reduced fraction"),
    ('"value":"1"', '"value":"1e9"', "reduced fraction"),
    ('"value":"1"', '"value":"%s"' % ("1" * 1001), "reduced fraction"),
    ('["exp",[5]]', '["exp",[99]]', r"body\.0: node 0 \(exp\): there is no value 99 yet"),
    ('["exp",[5]]', '["exp",[7]]', r"body\.0: node 0 \(exp\): there is no value 7 yet"),
    ('["exp",[5]]', '["exp",[-1]]', "there is no value -1 yet"),
    ('["exp",[5]]', '["exp",[true]]', r"operands are numbers of values, not \[True\]"),
    ('["exp",[5]]', '["exp",[5],{}]', "attributes are an object, and left out where there are none"),
    ('["exp",[5]]', '["exp",[5],{"axis":0}]', "has no attribute 'axis'"),
    ('["exp",[5]]', '["exp",[5],{"body":3}]', r"body\.0\.0: expected an object, not 3"),
    ('["exp",[5]]', '["exp"]', r'expected \["operation", \[operands\], \{attributes\}\]'),
    ('["exp",[5]]', '["exp",[5,5]]', "takes 1 operands, not 2"),
    ('"name":"beta"', '"name":"beta","name":"beta"', "the key 'name' occurs twice"),
    ('"name":"beta"', '"name":"k"', r"inputs\.3: there are two inputs k"),
    ('"name":"beta"', '"name":"be ta"', r"inputs\.3: 'be ta' is no name"),
    ('"domain":"key"', '"domain":"speed"', "k: there is no domain 'speed'"),
    ('"gradient":false', '"gradient":0', "only real inputs have a gradient or axes"),
    ('"type":"real K V"', '"type":"real V K"', "default of initial_state: its result is not one"),
    ('"type":"real T K"', '"type":"real T K "', "q: a type is real, int or bool and its axes, not 'real T K '"),
    ('"type":"real T K"', '"type":"int T K"', "q: only real inputs have a gradient or axes"),
    ('"real K V","real K"', '"real V K","real K"', r"body: node 0 \(scan\): parameter 0 of the step is|body\.0: node"),
    ('"carry":1', '"carry":0', r"body: node 0 \(scan\): sequences of different first axes"),
    ('"carry":1', '"carry":9', r"body: node 0 \(scan\): has 7 operands for 9 states and 5 sequences"),
    ('"reverse":false', '"reverse":0', "its attribute reverse is true or false, not 0"),
    ('"reverse":false,', "", r"body: node 0 \(scan\): its attribute reverse is missing"),
    ('["get",[7],{"i":1}]', '["get",[7],{"i":2}]', r"body: node 2 \(get\): the scan has 2 results, no number 2"),
    ('["get",[7],{"i":1}]', '["get",[0],{"i":0}]', r"body: node 2 \(get\): takes a scan apart, not \[real T K\]"),
    ('["get",[7],{"i":1}]', '["neg",[7]]', r"body: node 2 \(neg\): an operand is a scan: get takes its results apart"),
    ('"results":[8,9]', '"results":[8,10]', "body: there is no value 10"),
    ('"results":[8,9]', '"results":[8,7]', "body: the result 7 is a scan"),
    ('"results":[8,9]', '"results":[8]', "outputs: 2 names for 1 results"),
    ('"outputs":["final_state","o"]', '"outputs":["o","o"]', "outputs: 1 names for 2 results"),
    ('"outputs":["final_state","o"]', '"outputs":["final_state",3]', "outputs: 3 is no name"),
    ('"settings":{"error":"decayed"}', '"settings":[]', r"settings: expected an object, not \[\]"),
    ('"settings":{"error":"decayed"}', '"settings":{"error":[]}', r"settings\.error: expected a text"),
    ('"settings":{"error":"decayed"}', '"settings":{"error":9223372036854775808}', r"settings\.error: expected a text, an integer of 64 bits"),
    ('{"axis":"K"}', '{"axis":"Q"}', "default of scale: no input has the axis Q, so that its length is unknown"),
    ('{"axis":"K"}', '{"axis":0}', "its attribute axis is an axis, not 0"),
    ("{", "{{", "this is no JSON"),
]


class Refusals(unittest.TestCase):
    def test_every_sentence(self):
        for old, new, said in SPOILT:
            with self.subTest(old=old, new=new[:40]):
                self.assertIn(old, GOOD)
                with self.assertRaisesRegex(MechanismError, said) as refused:
                    read(GOOD.replace(old, new, 1))
                self.assertLess(len(str(refused.exception)), 400)
                self.assertNotIn("\n", str(refused.exception))

    def test_bytes(self):
        self.assertEqual(digest(read(GOOD.encode())), digest(read(GOOD)))
        for data, said in ((b"\xff", "the file is not UTF-8"), (b"", "this is no JSON"), (b"[" * 10**6, "this is no JSON"),
                           (b" " * (MAX_BYTES + 1), "more than 33554432 bytes"), (b'"\\ud800"', "the file: expected an object"),
                           (GOOD.replace("gated_deltanet", "\\ud800").encode(), "is no name"), (b"null", "expected an object")):  # fmt: skip
            with self.subTest(data[:10]), self.assertRaisesRegex(MechanismError, said):
                read(data)

    def test_limits(self):
        def program(nodes, results, t="real T"):
            return {"format": "assay-mechanism", "version": 1, "name": "f", "settings": {}, "outputs": ["o"],
                    "inputs": [{"name": "x", "type": t, "domain": "real", "default": None, "gradient": True}],
                    "body": {"params": [t], "nodes": nodes, "results": results}}  # fmt: skip

        chain = [["exp", [i]] for i in range(100_000)]
        self.assertEqual(read(json.dumps(program(chain, [100_000]))).size(), 100_000)
        self.assertEqual(len(digest(read(json.dumps(program(chain, [100_000]))))), 64)
        negations = [["neg", [i]] for i in range(99_999)]
        self.assertEqual(len(json.loads(write(read(json.dumps(program(negations, [99_999])))))["body"]["nodes"]), 1)
        with self.assertRaisesRegex(MechanismError, "body: the file has more than 100000 nodes"):
            read(json.dumps(program(chain + [["exp", [0]]], [1])))
        wide = [["expand", [i], {"at": 0, "size": "T"}] for i in range(8)]
        self.assertTrue(read(json.dumps(program(wide[:7], [7]))))
        with self.assertRaisesRegex(MechanismError, r"body: node 7 \(expand\): makes a value of more than 8 axes"):
            read(json.dumps(program(wide, [8])))
        self.assertTrue(read(json.dumps(nested(16))))
        with self.assertRaisesRegex(MechanismError, "scans are nested more than 16 deep"):
            read(json.dumps(nested(17)))


def nested(depth):
    """A program of `depth` scans, one in the other, each over all tokens and with one state."""
    body = {"params": ["real", "real", "real T"], "nodes": [["add", [0, 1]]], "results": [3]}
    for _ in range(depth - 1):
        scan = ["scan", [0, 2, 2], {"carry": 1, "xs": 1, "reverse": False, "body": body}]
        body = {"params": ["real", "real", "real T"], "nodes": [scan, ["get", [3], {"i": 0}]], "results": [4]}
    nodes = [["const", [], {"value": "0"}], ["scan", [1, 0, 0], {"carry": 1, "xs": 1, "reverse": False, "body": body}], ["get", [2], {"i": 0}]]
    return {"format": "assay-mechanism", "version": 1, "name": "f", "settings": {}, "outputs": ["o"],
            "inputs": [{"name": "x", "type": "real T", "domain": "real", "default": None, "gradient": True}],
            "body": {"params": ["real T"], "nodes": nodes, "results": [3]}}  # fmt: skip


class Outputs(unittest.TestCase):
    def test_they_are_real(self):
        j = {"format": "assay-mechanism", "version": 1, "name": "f", "settings": {}, "outputs": ["o"],
             "inputs": [{"name": "x", "type": "real T", "domain": "real", "default": None, "gradient": True}],
             "body": {"params": ["real T"], "nodes": [["iota", [], {"axis": "T"}]], "results": [1]}}  # fmt: skip
        with self.assertRaisesRegex(MechanismError, r"o: an output is real, not \[int T\]"):
            read(json.dumps(j))


class RoundTrip(unittest.TestCase):
    def test_every_program_reads_as_it_was_written(self):
        for name, settings in support.variants():
            for p in (support.program(name, settings), support.program(name, settings, True)):
                again = read(write(p))
                self.assertEqual(write(again), write(p))
                self.assertEqual(digest(again), digest(p))
                self.assertEqual([i.name for i in again.inputs], [i.name for i in p.inputs])

    def test_the_library_uses_nearly_all_operations(self):
        used = set(re.findall(r'\["([a-z]+)",\[', "".join(write(gradient(support.program(*v))) for v in support.variants())))
        self.assertLessEqual(used, set(OPS))
        self.assertEqual(len(OPS), 40)
        self.assertGreaterEqual(len(used), 34)


def mutated(j, rng):
    """A copy of JSON with one place changed."""
    j = copy.deepcopy(j)
    places = list(walk(j))
    container, key = rng.choice(places)
    others = [c[k] for c, k in rng.sample(places, min(len(places), 5))]
    strange = [None, True, False, 0, 1, -1, 2, 7, 99, 2**31, 2**63, 2**64, "", "K", "T", "real", "real T K", "1/2", "scan", "get", "exp", "a,ab->b",
               [], {}, [0], [[]], {"i": 0}, {"body": {}}, "\u0000", "é", "x" * 70]  # fmt: skip
    action = rng.randrange(5)
    if action == 0 and isinstance(container, list):
        del container[key]
    elif action == 1 and isinstance(container, list):
        container.insert(key, copy.deepcopy(container[key]))
    elif action == 2 and isinstance(container, dict):
        del container[key]
    elif action == 3:
        container[key] = copy.deepcopy(rng.choice(others))
    else:
        container[key] = rng.choice(strange)
    return j


def walk(x):
    for k in range(len(x)) if isinstance(x, list) else list(x):
        yield x, k
        if isinstance(x[k], (list, dict)):
            yield from walk(x[k])


class Fuzz(unittest.TestCase):
    """Random changes: the file is refused in one sentence, or it is a program, with a digest and a gradient."""

    def test_mutated_files(self):
        rng, refused, read_all_the_same = random.Random(20261122), 0, 0
        seeds = [json.loads(GOOD), json.loads(FORGETTING), json.loads(write(support.program("rls", (), True)))]
        for _ in range(3000):
            j = rng.choice(seeds)
            for _ in range(rng.choice((1, 1, 1, 2, 4))):
                j = mutated(j, rng)
            try:
                p = read(json.dumps(j))
            except MechanismError as error:
                refused += 1
                self.assertNotIn("\n", str(error))
                continue
            read_all_the_same += 1
            self.assertIsInstance(p, Program)
            self.assertEqual(write(read(write(p))), write(p))
            try:
                self.assertEqual(digest(read(write(gradient(p)))), digest(gradient(p)))
            except MechanismError as error:
                self.assertRegex(str(error), "its gradients need the name")
        self.assertGreater(refused, 1000)
        self.assertGreater(read_all_the_same, 30)

    def test_torn_files(self):
        rng = random.Random(1)
        for _ in range(1500):
            data = bytearray(GOOD.encode())
            for _ in range(rng.randint(1, 3)):
                at = rng.randrange(len(data))
                data[at : at + rng.randint(0, 3)] = bytes(rng.randrange(256) for _ in range(rng.randint(0, 3)))
            try:
                read(bytes(data[: rng.choice((len(data), rng.randrange(len(data))))]))
            except MechanismError:
                pass


if __name__ == "__main__":
    unittest.main()
