#!/bin/sh
# The family on equal terms, and BERT's ablation, with `bertkit compare`, on one core each: together about two hours.
# `bertkit compare ... --plan` says it for another machine.
#
#     benchmarks/family.sh DATA [OUT] [models|ablation]     one of the two only, say to give each a core of its own
#
# DATA/corpus/enwiki.jsonl.xz, DATA/glue/SST-2 and DATA/glue/MRPC must be there. Everything is kept in OUT (family/ unless
# said); after an interruption the same command goes on. MINUTES, STEPS, EXAMPLES and SEEDS in the environment change
# how much is done.
set -eu

data=${1:?name the folder with the data: benchmarks/family.sh DATA [OUT] [models|ablation]}
out=${2:-family}
part=${3:-both}
text=$data/corpus/enwiki.jsonl.xz
sst2=SST-2=classify:$data/glue/SST-2/train.tsv:$data/glue/SST-2/dev.tsv
mrpc=MRPC=classify:$data/glue/MRPC/train.tsv:$data/glue/MRPC/dev.tsv

compare() {  # the same text, pieces, tasks and seeds for both
    bertkit compare "$text" --vocab-size 8000 --task "$sst2" --task "$mrpc" \
        --most-examples "${EXAMPLES:-2000}" --seeds "${SEEDS:-3}" "$@"
}

# Ten minutes each. All keep case, since RoBERTa and GPT-2 do.
if [ "$part" != ablation ]; then
    compare --models "${MODELS:-bert-mini,roberta-mini,albert-mini,electra-mini,gpt2-mini}" --minutes "${MINUTES:-10}" \
        --out "$out/models"
fi

# Equal steps here: with equal time a model without next sentences would also have more of them. NSP and seeing both
# sides show in pairs of sentences (MRPC) more than in single ones (SST-2).
if [ "$part" != models ]; then
    compare --ablation bert --model bert-mini --steps "${STEPS:-300}" --out "$out/ablation"
fi
