from hardem_jax.errors import require_packages

require_packages("data", "array_record", "grain", "ijson", "msgpack", "sklearn", "tokenizers")
