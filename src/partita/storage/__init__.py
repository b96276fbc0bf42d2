"""A folder that tables live in: on a local disk, or in an object store through obstore.

```text
interface.py     Storage: what every kind of folder can do, and which class serves a URI
local.py         LocalStorage: a folder on a local disk
object_store.py  ObjectStorage: a folder in an object store
arrow_files.py   the adapters through which pyarrow reads and writes
```
"""

from partita.storage.interface import Storage, StoredFile
from partita.storage.local import LocalStorage
from partita.storage.object_store import ObjectStorage

__all__ = ["LocalStorage", "ObjectStorage", "Storage", "StoredFile"]
