"""Small archives in place of what builders of TensorFlow Datasets download."""

import io
import tarfile

import tensorflow_datasets as tfds


def tar(files):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode='w:gz') as archive:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))
    return buffer.getvalue()


def lay(folder, builder_name, archives):
    """Writes archives where the builder keeps its downloads."""
    from tensorflow_datasets.core.download import resource

    builder = tfds.builder(builder_name, data_dir=folder, file_format='array_record')
    for url, content in archives.items():
        info = builder.url_infos[url]
        file = folder / 'downloads' / builder.name / resource.get_dl_fname(url, info.checksum)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        original = url.rpartition('/')[2]
        resource.write_info_file(url=url, path=file, dataset_name=builder.name, original_fname=original, url_info=info)
