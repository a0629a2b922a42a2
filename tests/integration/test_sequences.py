"""SequenceExamples from a spec to what `stoker read --dump` prints, and the parser's modes: what one
side reads of an ambiguous record, and that it is counted."""

from support import Case, example, feature, field, main, varint, write_records


def sequence(context, lists):
    def entries(features, value):
        return b"".join(
            field(1, field(1, key.encode()) + field(2, value(of))) for key, of in features.items())

    def feature_list(steps):
        return b"".join(field(1, feature([step])) for step in steps)

    return field(1, entries(context, feature)) + field(2, entries(lists, feature_list))


class Sequences(Case):
    SPEC = """
        name: "s" source {{ files: "x" {source} }} order {{ repeat: 1 }}
        tensor {{ name: "id" dtype: INT64 }}
        tensor {{ name: "words" dtype: BYTES feature_list: true ragged {{}} {words} }}
        tensor {{ name: "score" dtype: FLOAT32 feature_list: true padded {{ value: -1 }} }}
        tensor {{ name: "mark" feature: "m" dtype: INT64 feature_list: true
                  padded {{ length: 2 truncate: true }} }}
        batch {{ size: 4 }}"""

    def write(self, *records):
        write_records(self.data / "x", records)

    def row(self, number, words, scores, marks):
        return sequence({"id": [number]}, {"words": words, "score": scores, "m": marks})

    def test_lists_come_ragged_and_padded_beside_their_context(self):
        self.write(self.row(7, [b"a", b"bc"], [0.5, 1.5, 2.5], [4]),
                   self.row(-8, [], [3.5], [5, 6, 7]),
                   # The lists before the context are the same record.
                   b"".join(reversed([sequence({"id": [9]}, {}),
                                      sequence({}, {"words": [b"d"], "score": [], "m": []})])))
        with self.daemon() as daemon:
            rows = [r["tensors"] for r in daemon.dump(self.spec(self.SPEC.format(source="", words="")))]
        self.assertEqual([r["id"] for r in rows], [7, -8, 9])
        self.assertEqual([r["score"] for r in rows], [[0.5, 1.5, 2.5], [3.5], []])
        self.assertEqual([r["mark"] for r in rows], [[4], [5, 6], []])
        self.assertEqual([len(r["words"]) for r in rows], [2, 0, 1])

    def test_a_missing_list_is_an_error_where_it_is_not_allowed(self):
        self.write(sequence({"id": [1]}, {"score": [1.0], "m": [1]}))
        with self.daemon() as daemon:
            done = daemon.stoker("read", self.spec(self.SPEC.format(source="", words=""), "no"),
                                 "--dump", check=False)
            self.refused(done, "feature-missing", "\"words\"", "allow_missing", "record 0")
            allowed = self.spec(self.SPEC.format(source="", words="allow_missing: true"), "yes")
            self.assertEqual([len(r["tensors"]["words"]) for r in daemon.dump(allowed)], [0])

    def test_a_step_of_another_kind_or_number_of_values_is_named(self):
        two = field(2, field(1, field(1, b"m") + field(2, field(1, feature([1, 2])))))
        kind = field(2, field(1, field(1, b"m") + field(2, field(1, feature([0.5])))))
        good = self.row(1, [b"a"], [1.0], [1])
        for name, bad, words in (("two", two, ("feature-count", "step 0", "2 values")),
                                 ("kind", kind, ("feature-kind", "step 0", "float_list"))):
            self.write(good, good + bad)
            with self.daemon() as daemon:
                done = daemon.stoker("read", self.spec(self.SPEC.format(source="", words=""), name),
                                     "--dump", check=False)
                self.refused(done, "record 1", "\"m\"", *words)

    def test_a_spec_of_sequences_is_read_strictly(self):
        self.write(self.row(1, [b"a"], [1.0], [1]))
        with self.daemon() as daemon:
            done = daemon.stoker("read", self.spec(self.SPEC.format(source="parser: TF", words="")),
                                 check=False)
            self.refused(done, "source.parser", "STRICT")


class Modes(Case):
    SPEC = """
        name: "{mode}" source {{ files: "x" parser: {mode} }} order {{ repeat: 1 }}
        tensor {{ name: "v" dtype: INT64 ragged {{}} }} batch {{ size: 3 }}"""

    def test_each_mode_takes_its_side_and_counts_what_was_ambiguous(self):
        chunks = field(3, field(1, varint(1) + varint(300)) + field(1, varint(-3)))
        write_records(self.data / "x", [
            example({"v": [5]}),
            field(1, field(1, field(1, b"v") + field(2, chunks))),
            example({"v": [6, 7]}),
        ])
        with self.daemon() as daemon:
            for mode, middle in (("TF", [1, 300]), ("PROTOBUF", [1, 300, -3])):
                spec = self.spec(self.SPEC.format(mode=mode), mode)
                self.assertEqual([r["tensors"]["v"] for r in daemon.dump(spec)],
                                 [[5], middle, [6, 7]])
            strict = self.spec(self.SPEC.format(mode="STRICT"), "strict")
            self.refused(daemon.stoker("read", strict, "--dump", check=False),
                         "ambiguous-example", "record 1", "packed chunk")


if __name__ == "__main__":
    main()
