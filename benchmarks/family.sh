#!/bin/sh
# The family on equal terms, and BERT's ablation, with `bertkit compare`: on two cores about an hour and a half, and an
# hour. `bertkit compare ... --plan` says it for another machine.
#
#     benchmarks/family.sh DATA [OUT]     where DATA/corpus/enwiki.jsonl.xz, DATA/glue/SST-2 and DATA/glue/MRPC are
#
# Everything is kept in OUT (family/ unless said); after an interruption the same command goes on.
set -eu

data=${1:?name the folder with the data: benchmarks/family.sh DATA [OUT]}
out=${2:-family}
text=$data/corpus/enwiki.jsonl.xz
sst2=SST-2=classify:$data/glue/SST-2/train.tsv:$data/glue/SST-2/dev.tsv
mrpc=MRPC=classify:$data/glue/MRPC/train.tsv:$data/glue/MRPC/dev.tsv

# Ten minutes each. All keep case, since RoBERTa and GPT-2 do.
models=${MODELS:-bert-mini,roberta-mini,albert-mini,electra-mini,gpt2-mini}
bertkit compare "$text" --models "$models" --minutes "${MINUTES:-10}" --vocab-size 16000 \
    --task "$sst2" --task "$mrpc" --most-examples 3000 --seeds 3 --with-random --out "$out/models"

# Equal steps here: with equal time a model without next sentences would also have more of them. Four runs and fifteen
# fits for each task; NSP and seeing both sides show in pairs of sentences (MRPC) more than in single ones (SST-2).
bertkit compare "$text" --ablation bert --model bert-mini --steps "${STEPS:-1200}" --vocab-size 16000 \
    --task "$sst2" --task "$mrpc" --most-examples 3000 --seeds 3 --out "$out/ablation"
